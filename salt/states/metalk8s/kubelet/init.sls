# The agent of Kubernetes on the node, and kubectl. Nothing starts it before it has a configuration.
include:
  - metalk8s.kubelet.installed
