# The packages of the ISO, as a repository that the package manager trusts by its signature.
include:
  - metalk8s.repo.configured
