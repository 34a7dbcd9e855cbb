# What the operator wrote, as bootstrap.sh has checked it, and what that makes of a machine before the cluster says
# more: of the version it was called with, and a node, or the one that holds the certificate authorities.
{%- set path = "/etc/metalk8s/bootstrap.yaml" %}
{%- load_yaml as bootstrap %}
{{ salt["file.read"](path) if salt["file.file_exists"](path) else "{}" }}
{%- endload %}
metalk8s:
  bootstrap: {{ bootstrap | json }}
  site: {{ (bootstrap.get("site") or {}) | json }}
  node:
    version: {{ saltenv[("metalk8s-" | length):] | json }}
    roles:
      - {{ "bootstrap" if grains.id == bootstrap.get("ca", {}).get("minion") else "node" }}
