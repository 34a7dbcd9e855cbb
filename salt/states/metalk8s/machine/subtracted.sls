{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set leaving = salt["metalk8s_roles.superfluous"](metalk8s.node.roles, saltenv) %}
# What no role of the machine needs leaves it: whatever another role put there that the machine had before.
include: {{ leaving | json }}
{%- if not leaving %}

The roles of the machine need all that there is:
  test.nop
{%- endif %}
