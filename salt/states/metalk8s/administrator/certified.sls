{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{#- The group that nobody can be put out of again is for the bootstrap machine, which makes its certificate itself -#}
{%- set policy = "administrator" if metalk8s.has_authorities else "administrator_elsewhere" %}
{%- from "metalk8s/macros.jinja" import kubeconfig %}

include:
  - metalk8s.authorities

Let the administrator into the API:
{{- kubeconfig(metalk8s, metalk8s.administrator.kubeconfig, metalk8s.kube_apiserver.url, policy,
               "root") }}
