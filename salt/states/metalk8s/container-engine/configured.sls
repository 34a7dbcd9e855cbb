{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set engine = metalk8s.container_engine %}

include:
  - metalk8s.container-engine.installed

Create the folders of the container engine:
  file.directory:
    - names:
      - {{ engine.config_folder }}
      - {{ engine.config_folder }}/certs.d
      - {{ engine.config_folder }}/certs.d/{{ metalk8s.registry.host }}
    - user: root
    - group: root
    - mode: "0755"
    - require:
      - pkg: Install the container engine

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
    # the file to check comes after the command
    - check_cmd: sh -c 'containerd --config "$0" config dump >/dev/null'
    - require:
      - file: Create the folders of the container engine

Tell the container engine where the registry is:
  file.managed:
    - name: {{ engine.config_folder }}/certs.d/{{ metalk8s.registry.host }}/hosts.toml
    - source: salt://metalk8s/container-engine/files/hosts.toml.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folders of the container engine
