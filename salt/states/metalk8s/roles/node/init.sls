# A machine that can run the containers of a cluster. Every other role includes it.
include:
  - metalk8s.accounts
  - metalk8s.authorities
  - metalk8s.repo
  - metalk8s.tools
  - metalk8s.firewall
  - metalk8s.clock
  - metalk8s.kernel
  - metalk8s.container-engine
  - metalk8s.kubelet
  - metalk8s.balancer
  - metalk8s.renewal
