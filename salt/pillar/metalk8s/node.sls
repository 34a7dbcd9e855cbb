# What the operator wrote, as bootstrap.sh has checked it, and what that makes of a machine before the cluster says
# more: of the version it was called with, and a node, or the one that holds the certificate authorities.
{%- set path = "/etc/metalk8s/bootstrap.yaml" %}
{%- load_yaml as bootstrap %}
{{ salt["file.read"](path) if salt["file.file_exists"](path) else "{}" }}
{%- endload %}
{#- By the name that the master knows from the minion's key: a minion writes its grains itself -#}
{%- set is_first = opts.id == (bootstrap.get("ca") or {}).get("minion") %}
{#- Of the machines there are so far, only the first runs keepalived -#}
{%- if not is_first %}
  {%- do ((bootstrap.get("apiServer") or {}).get("keepalived") or {}).pop("authPassword", none) %}
{%- endif %}
metalk8s:
  bootstrap: {{ bootstrap | json }}
  site: {{ (bootstrap.get("site") or {}) | json }}
  node:
    version: {{ saltenv[("metalk8s-" | length):] | json }}
    roles:
      - {{ "bootstrap" if is_first else "node" }}
