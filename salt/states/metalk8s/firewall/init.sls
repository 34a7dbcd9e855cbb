# What the table of ports says: as rules of firewalld where a machine has it, which is neither started nor stopped here,
# and else as a table of our own. That one keeps neighbours from loopback in any case.
include:
  - metalk8s.firewall.configured
  - metalk8s.firewall.running
