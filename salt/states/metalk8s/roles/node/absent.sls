# The reverse of the role, in the reverse order: what it put on the machine goes, the rest stays.
include:
  - metalk8s.renewal.absent
  - metalk8s.balancer.absent
  - metalk8s.kubelet.absent
  - metalk8s.container-engine.absent
  - metalk8s.kernel.absent
  - metalk8s.firewall.absent
  - metalk8s.tools.absent
  - metalk8s.repo.absent
  - metalk8s.authorities.absent
  - metalk8s.accounts.absent
