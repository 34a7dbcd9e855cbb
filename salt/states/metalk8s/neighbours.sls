{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set manifest = metalk8s.kubelet.static_pods ~ "/kube-apiserver.yaml" %}
# What a machine knows of the others: applied to each of them when one joins or leaves.
include:
  - metalk8s.firewall
  - metalk8s.container-engine.configured
  - metalk8s.balancer
  - metalk8s.keepalived
  - metalk8s.clock
{#- Beside a member, the API server asks that one alone; without one, all of them, and those change. Where there is no
    API server yet, its own deployment brings it -#}
{%- if "master" in metalk8s.node.roles and metalk8s.node.name not in metalk8s.etcd.members
       and salt["file.file_exists"](manifest) %}
  - metalk8s.kube-apiserver
{%- endif %}
