{%- from "metalk8s/map.jinja" import metalk8s with context %}
{%- set engine = metalk8s.container_engine %}

include:
  - metalk8s.container-engine.installed

Configure the container engine:
  file.managed:
    - name: {{ engine.config_folder }}/config.toml
    - source: salt://metalk8s/container-engine/files/config.toml.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - makedirs: true
    # the file to check comes after the command
    - check_cmd: sh -c 'containerd --config "$0" config dump >/dev/null'
    - require:
      - pkg: Install the container engine
