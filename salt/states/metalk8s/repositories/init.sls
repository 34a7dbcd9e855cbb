# The packages and images of the ISO over HTTPS: a web server that the kubelet runs without an API server.
include:
  - metalk8s.repositories.created
  - metalk8s.repositories.certified
  - metalk8s.repositories.configured
  - metalk8s.repositories.running
