# A virtual address of the API server that moves to a machine whose API server answers; only where it was asked for.
include:
  - metalk8s.keepalived.configured
  - metalk8s.keepalived.running
