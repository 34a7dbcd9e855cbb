{%- from "metalk8s/map.jinja" import metalk8s with context %}
{%- from "metalk8s/macros.jinja" import certificate %}
{%- set apiserver = metalk8s.kube_apiserver %}
{%- set account = apiserver.account.name %}
{%- set folder = metalk8s.pki.authorities.kubernetes.path.rpartition("/")[0] %}
{%- set names = ["DNS:" ~ metalk8s.node.name, "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc",
                 "DNS:kubernetes.default.svc." ~ metalk8s.networks.domain, "IP:" ~ metalk8s.networks.api_service,
                 "IP:" ~ metalk8s.networks.control_plane.address] %}
{%- do names.append(("IP:" if apiserver.host | is_ip else "DNS:") ~ apiserver.host) %}

include:
  - metalk8s.authorities

{{ certificate(metalk8s, "the API server", folder ~ "/apiserver", "kubernetes", account,
               {"CN": "kube-apiserver"}, ["serverAuth"], names) }}

{{ certificate(metalk8s, "the API server towards kubelets", folder ~ "/apiserver-kubelet-client", "kubernetes", account,
               {"O": "system:masters", "CN": "kube-apiserver-kubelet-client"}, ["clientAuth"]) }}

{{ certificate(metalk8s, "the API server towards etcd", folder ~ "/apiserver-etcd-client", "etcd", account,
               {"O": "system:masters", "CN": "kube-apiserver-etcd-client"}, ["clientAuth"]) }}

{{ certificate(metalk8s, "the API server towards its extensions", folder ~ "/front-proxy-client", "front_proxy", account,
               {"CN": "front-proxy-client"}, ["clientAuth"]) }}
