# What the role's renewal applies: every certificate that ends one day.
include:
  - metalk8s.roles.node.certified
  - metalk8s.repositories.certified
  - metalk8s.administrator.certified
  - metalk8s.kube-apiserver.certified
  - metalk8s.kube-controller-manager.certified
  - metalk8s.kube-scheduler.certified
