# What the operator wrote, as bootstrap.sh has checked it, and what that and the cluster make of a machine. Before
# there is a cluster, a machine is of the version it was called with, and a node, or the one with the authorities.
{%- set path = "/etc/metalk8s/bootstrap.yaml" %}
{%- load_yaml as bootstrap %}
{{ salt["file.read"](path) if salt["file.file_exists"](path) else "{}" }}
{%- endload %}
{#- By the name that the master knows from the minion's key: a minion writes its grains itself -#}
{%- set is_first = opts.id == (bootstrap.get("ca") or {}).get("minion") %}
{#- What _pillar/metalk8s_nodes.py made of the Node objects; it comes first -#}
{%- set own = ((pillar.get("metalk8s") or {}).get("nodes") or {}).get(opts.id) or {} %}
{%- set roles = ["bootstrap"] if is_first else own.get("roles") or ["node"] %}
{#- Only machines with an API server run keepalived -#}
{%- if not is_first and "master" not in roles %}
  {%- do ((bootstrap.get("apiServer") or {}).get("keepalived") or {}).pop("authPassword", none) %}
{%- endif %}
metalk8s:
  bootstrap: {{ bootstrap | json }}
  site: {{ (bootstrap.get("site") or {}) | json }}
  node:
    version: {{ saltenv[("metalk8s-" | length):] | json }}
    roles: {{ roles | json }}
