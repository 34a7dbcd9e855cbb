# A machine that can run the containers of a cluster. Every other role includes it.
include:
  - metalk8s.repo
  - metalk8s.container-engine
  - metalk8s.kubelet
