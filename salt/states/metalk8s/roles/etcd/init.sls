# A machine that holds the memory of the cluster.
include:
  - metalk8s.roles.node
  - metalk8s.etcd
