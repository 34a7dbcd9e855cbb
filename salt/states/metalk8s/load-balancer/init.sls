# Addresses for Services of type LoadBalancer: pools of them, a program that gives them away, and one on each machine
# that brings them to it. Without a pool, these wait for one and do nothing else.
include:
  - metalk8s.load-balancer.deployed
