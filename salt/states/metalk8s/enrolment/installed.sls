{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.repo

# of the operating system: whatever version is there will do
Install the client of SSH:
  pkg.installed:
    - pkgs: {{ metalk8s.enrolment.system | json }}
    - refresh: false
{%- for option, value in metalk8s.repo.install_options.items() %}
    - {{ option }}: {{ value | json }}
{%- endfor %}
    - require:
      - test: The MetalK8s package repository is ready
