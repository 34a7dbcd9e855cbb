# The ISO at its place: each machine of the control plane has it, so that none of them is the only one to serve it.
include:
  - metalk8s.archive.deployed
