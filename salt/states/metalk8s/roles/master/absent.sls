{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
# The reverse of the role, in the reverse order: what it put on the machine goes, the rest stays.
include:
  - metalk8s.kube-scheduler.absent
  - metalk8s.kube-controller-manager.absent
  - metalk8s.kube-apiserver.absent
  - metalk8s.keepalived.absent
  - metalk8s.administrator.absent
  - metalk8s.repositories.absent
  - metalk8s.archive.absent
{#- the other role stays on the machine, and with it what both of them need #}
{%- if "etcd" not in metalk8s.node.roles %}
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
{%- endif %}
