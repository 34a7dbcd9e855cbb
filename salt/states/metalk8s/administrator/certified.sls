{%- from "metalk8s/map.jinja" import metalk8s with context %}
{%- from "metalk8s/macros.jinja" import kubeconfig %}

include:
  - metalk8s.authorities

Let the administrator into the API:
{{- kubeconfig(metalk8s, metalk8s.administrator.kubeconfig, metalk8s.kube_apiserver.url, "administrator",
               "root") }}
