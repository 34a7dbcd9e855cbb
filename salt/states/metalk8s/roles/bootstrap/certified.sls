# What the role's renewal applies: every certificate that ends one day.
include:
  - metalk8s.roles.node.certified
  - metalk8s.repositories.certified
  - metalk8s.salt-master.certified
  - metalk8s.salt-minion.certified
  - metalk8s.roles.etcd.certified
  - metalk8s.roles.master.certified
