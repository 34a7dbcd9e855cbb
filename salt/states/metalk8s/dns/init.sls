# What answers pods that ask for a name: two pods with a copy of all names each, behind the Service kube-dns. Its address
# is the one that kubelets give their pods.
include:
  - metalk8s.dns.deployed
