# The first machine: it holds the authorities, serves the ISO, and is a cluster by itself.
include:
  - metalk8s.roles.node
  - metalk8s.archive
  - metalk8s.repositories
  - metalk8s.salt-master
  - metalk8s.salt-minion
  - metalk8s.roles.etcd
  - metalk8s.roles.master
  - metalk8s.pod-security
  - metalk8s.pod-network
  - metalk8s.kube-proxy
  - metalk8s.dns
  - metalk8s.load-balancer
  - metalk8s.ingress
  - metalk8s.cluster
  - metalk8s.enrolment
