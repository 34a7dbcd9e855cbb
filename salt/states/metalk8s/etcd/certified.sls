{%- from "metalk8s/map.jinja" import metalk8s with context %}
{%- from "metalk8s/macros.jinja" import certificate %}
{%- set account = metalk8s.etcd.account.name %}
{%- set folder = metalk8s.pki.authorities.etcd.path.rpartition("/")[0] %}
{%- set node = metalk8s.node.name %}
{%- set names = ["DNS:" ~ node, "DNS:localhost", "IP:" ~ metalk8s.networks.control_plane.address, "IP:127.0.0.1", "IP:::1"] %}

include:
  - metalk8s.authorities

{{ certificate(metalk8s, "the etcd server", folder ~ "/server", "etcd", account, {"CN": node},
               ["serverAuth", "clientAuth"], names) }}

{{ certificate(metalk8s, "the etcd peer", folder ~ "/peer", "etcd", account, {"CN": node},
               ["serverAuth", "clientAuth"], names) }}

{{ certificate(metalk8s, "the etcd health check", folder ~ "/healthcheck-client", "etcd", account,
               {"O": "system:masters", "CN": "kube-etcd-healthcheck-client"}, ["clientAuth"]) }}
