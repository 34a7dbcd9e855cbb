# Whoever is root on this machine may do everything in the cluster.
include:
  - metalk8s.administrator.certified
