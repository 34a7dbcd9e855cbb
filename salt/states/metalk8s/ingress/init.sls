# What lets requests from outside reach Services, as Ingresses say: HAProxy in the workload plane of each machine, and in
# the control plane of each master.
include:
  - metalk8s.ingress.deployed
