# A machine for what looks after the cluster; pods are sent there by its label.
include:
  - metalk8s.roles.node
