# What turns objects into what they ask for. It listens on the loopback interface only.
include:
  - metalk8s.kube-controller-manager.certified
  - metalk8s.kube-controller-manager.running
