{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import kubeconfig %}

include:
  - metalk8s.authorities

Let the scheduler into the API:
{{- kubeconfig(metalk8s, metalk8s.kube_scheduler.kubeconfig, metalk8s.kube_apiserver.local_url, "scheduler",
               metalk8s.kube_scheduler.account.name) }}
