# What finds a node for each pod. It listens on the loopback interface only.
include:
  - metalk8s.kube-scheduler.certified
  - metalk8s.kube-scheduler.running
