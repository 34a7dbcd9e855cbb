{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import certificate %}
{%- set account = metalk8s.etcd.account.name %}
{%- set folder = metalk8s.pki.authorities.etcd.path.rpartition("/")[0] %}

include:
  - metalk8s.authorities

{{ certificate(metalk8s, "the etcd server", folder ~ "/server", "etcd_server", account) }}

{{ certificate(metalk8s, "the etcd peer", folder ~ "/peer", "etcd_peer", account) }}

{{ certificate(metalk8s, "the etcd health check", folder ~ "/healthcheck-client", "etcd_healthcheck", account) }}
