{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import kubeconfig %}

include:
  - metalk8s.authorities

Let the administrator into the API:
{{- kubeconfig(metalk8s, metalk8s.administrator.kubeconfig, metalk8s.kube_apiserver.url, "administrator",
               "root") }}
