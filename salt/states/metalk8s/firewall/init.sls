# What the table of ports says, as rules of firewalld where a machine has it; it is neither started nor stopped here.
include:
  - metalk8s.firewall.configured
