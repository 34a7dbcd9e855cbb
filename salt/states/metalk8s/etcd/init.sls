# The memory of the cluster: one member on this machine, TLS on every connection that leaves it.
include:
  - metalk8s.etcd.installed
  - metalk8s.etcd.certified
  - metalk8s.etcd.running
