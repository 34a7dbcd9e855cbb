{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import installed %}

include:
  - metalk8s.repo

# of the operating system: whatever version is there will do
Install the programs of the system:
  pkg.installed:
    - pkgs: {{ metalk8s.tools.system | json }}
    - refresh: false
{%- for option, value in metalk8s.repo.install_options.items() %}
    - {{ option }}: {{ value | json }}
{%- endfor %}
    - require:
      - test: The MetalK8s package repository is ready

Install the tools:
{{- installed(metalk8s, metalk8s.tools.packages) }}
