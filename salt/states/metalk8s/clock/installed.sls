{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set clock = metalk8s.clock %}

include:
  - metalk8s.clock.configured
  - metalk8s.repo
{%- if clock.is_ours %}

# after its configuration: Debian's package starts it at once, and with its own it would ask strangers
Install chrony:
  pkg.installed:
    - pkgs: {{ clock.system | json }}
    - refresh: false
{%- for option, value in metalk8s.repo.install_options.items() %}
    - {{ option }}: {{ value | json }}
{%- endfor %}
    - require:
      - test: The MetalK8s package repository is ready
      - file: Say whom the clock follows
      - file: Configure the clock
      - file: Let chrony read our configuration
{%- endif %}
