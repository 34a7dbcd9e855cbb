{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import certificate %}

include:
  - metalk8s.authorities

{{ certificate(metalk8s, "the Salt minion", metalk8s.salt_minion.certificate, "salt_minion", "root") }}
