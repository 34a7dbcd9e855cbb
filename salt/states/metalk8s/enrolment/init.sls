# What lets other machines in, which only the bootstrap machine does; deploy-node.sh uses it.
include:
  - metalk8s.enrolment.installed
