{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
# What the role put on the machine goes, in the reverse order; what another role of the machine needs stays.
{%- set leaving = salt["metalk8s_roles.leaving"]("node", metalk8s.node.roles, saltenv) %}
include: {{ leaving | json }}
{%- if not leaving %}

Other roles need all that the role node has:
  test.nop
{%- endif %}
