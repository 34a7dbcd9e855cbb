# Which pods the API server takes, and from whom: ordinary ones from everybody, others from who looks after the cluster.
include:
  - metalk8s.pod-security.deployed
