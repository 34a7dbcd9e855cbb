{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.repo

Install the container engine:
  pkg.installed:
    - pkgs: {{ metalk8s.container_engine.packages | json }}
    - refresh: false
{%- for option, value in metalk8s.repo.install_options.items() %}
    - {{ option }}: {{ value | json }}
{%- endfor %}
    - hold: true
    - update_holds: true
    - require:
      - test: The MetalK8s package repository is ready
