# What the cluster says of itself: its version, its configuration as kubeadm writes it, and what this node is for.
include:
  - metalk8s.cluster.deployed
