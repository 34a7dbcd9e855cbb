# What the role's renewal applies: every certificate that ends one day.
include:
  - metalk8s.roles.node.certified
