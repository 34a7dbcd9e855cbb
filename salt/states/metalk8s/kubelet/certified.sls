{%- from "metalk8s/map.jinja" import metalk8s with context %}
{%- from "metalk8s/macros.jinja" import certificate, kubeconfig %}
{%- set node = metalk8s.node.name %}

include:
  - metalk8s.authorities

Let the kubelet into the API:
{{- kubeconfig(metalk8s, metalk8s.kubelet.kubeconfig, metalk8s.kube_apiserver.url, "root",
               "system:node:" ~ node, "system:nodes") }}

{{ certificate(metalk8s, "the kubelet", metalk8s.kubelet.certificate, "kubernetes", "root",
               {"CN": "system:node:" ~ node, "O": "system:nodes"}, ["serverAuth"],
               ["DNS:" ~ node, "IP:" ~ metalk8s.networks.control_plane.address]) }}
