{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set clock = metalk8s.clock %}

include:
  - metalk8s.clock.configured
  - metalk8s.clock.installed
{%- if clock.is_ours %}

Run chrony:
  service.running:
    - name: {{ clock.service }}
    - enable: true
    - require:
      - pkg: Install chrony

Run chrony with our configuration:
  metalk8s_service.renewed:
    - name: {{ clock.service }}
    - files:
      - {{ clock.config }}
      - {{ clock.drop_in }}
    - require:
      - service: Run chrony

Tell chrony whom the clock follows:
  metalk8s_clock.sources_loaded:
    - name: {{ clock.config_folder }}/clock.sources
    - addresses: {{ (clock.upstream + clock.masters) | json }}
    - require:
      - metalk8s_service: Run chrony with our configuration
      - file: Say whom the clock follows
{%- endif %}
