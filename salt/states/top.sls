# Which states a minion of this version gets. The version is the name of the saltenv, metalk8s-<version>,
# so one machine may serve several versions and each minion follows its own.
{%- set version = saltenv[("metalk8s-" | length):] %}
{%- set of_this_version = "I@metalk8s:node:version:" ~ version %}

{{ saltenv }}:
{%- for role in ("node", "infra", "etcd", "master", "bootstrap") %}
  {{ of_this_version }} and I@metalk8s:node:roles:{{ role }}:
    - match: compound
    - metalk8s.roles.{{ role }}
{%- endfor %}
  # the bootstrap machine has its own before there is a master
  {{ of_this_version }} and J@metalk8s:node:roles:^(node|infra|etcd|master)$:
    - match: compound
    - metalk8s.salt-minion
