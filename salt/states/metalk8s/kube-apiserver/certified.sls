{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import certificate %}
{%- set account = metalk8s.kube_apiserver.account.name %}
{%- set folder = metalk8s.pki.authorities.kubernetes.path.rpartition("/")[0] %}

include:
  - metalk8s.authorities

{{ certificate(metalk8s, "the API server", folder ~ "/apiserver", "apiserver", account) }}

{{ certificate(metalk8s, "the API server towards kubelets", folder ~ "/apiserver-kubelet-client",
               "apiserver_to_kubelets", account) }}

{{ certificate(metalk8s, "the API server towards etcd", folder ~ "/apiserver-etcd-client", "apiserver_to_etcd",
               account) }}

{{ certificate(metalk8s, "the API server towards its extensions", folder ~ "/front-proxy-client",
               "apiserver_to_extensions", account) }}
