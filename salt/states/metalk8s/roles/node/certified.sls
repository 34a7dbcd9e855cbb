{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
# What the role's renewal applies: every certificate that ends one day.
include:
  - metalk8s.kubelet.certified
{%- if not metalk8s.has_authorities %}
  - metalk8s.salt-minion.certified
{%- endif %}
