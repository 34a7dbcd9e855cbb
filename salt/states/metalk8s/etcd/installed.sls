{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import installed %}

include:
  - metalk8s.repo

Install the client of etcd:
{{- installed(metalk8s, metalk8s.etcd.packages) }}
