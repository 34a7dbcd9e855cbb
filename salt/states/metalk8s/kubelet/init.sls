# The agent of Kubernetes on the node, and kubectl. It runs static pods before there is an API server.
include:
  - metalk8s.kubelet.installed
  - metalk8s.kubelet.certified
  - metalk8s.kubelet.configured
  - metalk8s.kubelet.running
