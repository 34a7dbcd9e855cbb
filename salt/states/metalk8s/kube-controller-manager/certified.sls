{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import kubeconfig %}

include:
  - metalk8s.authorities

Let the controller manager into the API:
{{- kubeconfig(metalk8s, metalk8s.kube_controller_manager.kubeconfig, metalk8s.kube_apiserver.local_url,
               "controller_manager", metalk8s.kube_controller_manager.account.name) }}
