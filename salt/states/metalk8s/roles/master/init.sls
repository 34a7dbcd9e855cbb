# A machine that runs the control plane.
include:
  - metalk8s.roles.node
  - metalk8s.archive
  - metalk8s.repositories
  - metalk8s.administrator
  - metalk8s.keepalived
  - metalk8s.kube-apiserver
  - metalk8s.kube-controller-manager
  - metalk8s.kube-scheduler
