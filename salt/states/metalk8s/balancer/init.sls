# One address on loopback that leads to whichever API server answers, so that a machine needs none in particular.
include:
  - metalk8s.balancer.configured
  - metalk8s.balancer.running
