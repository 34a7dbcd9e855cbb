# What lets the pods of all machines reach each other: a DaemonSet. Its program writes routes, a table of the packet
# filter, and the file from which the container engine learns of the network: until then, a node is not ready.
include:
  - metalk8s.pod-network.deployed
