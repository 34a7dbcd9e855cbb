# What a machine knows of the others: applied to each of them when one joins or leaves.
include:
  - metalk8s.firewall
  - metalk8s.container-engine.configured
  - metalk8s.balancer
  - metalk8s.keepalived
  - metalk8s.clock
