{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import certificate %}
{%- set repositories = metalk8s.repositories %}

include:
  - metalk8s.authorities
  - metalk8s.repositories.created

{{ certificate(metalk8s, "the repositories", repositories.config_folder ~ "/tls/server", "repositories",
               repositories.account.name) }}
