{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.repo

Install the Salt minion:
  pkg.installed:
    - pkgs: {{ metalk8s.salt_minion.packages | json }}
    - refresh: false
{%- for option, value in metalk8s.repo.install_options.items() %}
    - {{ option }}: {{ value | json }}
{%- endfor %}
    - hold: true
    - update_holds: true
    - require:
      - test: The MetalK8s package repository is ready
