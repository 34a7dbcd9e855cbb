# The API of the cluster. Secrets are written to etcd encrypted.
include:
  - metalk8s.kube-apiserver.certified
  - metalk8s.kube-apiserver.configured
  - metalk8s.kube-apiserver.running
