{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import certificate, kubeconfig %}

include:
  - metalk8s.authorities

Let the kubelet into the API:
{{- kubeconfig(metalk8s, metalk8s.kubelet.kubeconfig, metalk8s.kubelet.api_server, "kubelet_to_apiserver", "root") }}

{{ certificate(metalk8s, "the kubelet", metalk8s.kubelet.certificate, "kubelet", "root") }}
