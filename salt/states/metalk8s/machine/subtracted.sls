{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
# What no role of the machine needs leaves it: whatever another role put there that the machine had before.
include: {{ salt["metalk8s_roles.superfluous"](metalk8s.node.roles, saltenv) | json }}
