# What makes Services reachable: a DaemonSet.
include:
  - metalk8s.kube-proxy.deployed
