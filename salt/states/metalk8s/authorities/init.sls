# The certificate authorities of the cluster, and the key that signs the tokens of service accounts.
include:
  - metalk8s.authorities.created
