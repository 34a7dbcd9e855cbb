{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set repo = metalk8s.repo %}

Configure the MetalK8s package repository:
  file.managed:
    - name: {{ repo.source }}
    - source: salt://metalk8s/repo/files/{{ metalk8s.os_family }}/{{ repo.template }}
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"

{%- if repo.refresh.command %}

Refresh the index of the MetalK8s package repository:
  cmd.run:
    - name: {{ repo.refresh.command }}
    - unless: cmp --silent {{ repo.index }} {{ repo.refresh.indexes }}/{{ repo.index | replace("/", "_") }}
    - require:
      - file: Configure the MetalK8s package repository
    - require_in:
      - test: The MetalK8s package repository is ready
{%- endif %}

{%- if metalk8s.version_lock.packages %}

Install what holds package versions:
  pkg.installed:
    - pkgs: {{ metalk8s.version_lock.packages | json }}
    - refresh: false
{%- for option, value in metalk8s.repo.install_options.items() %}
    - {{ option }}: {{ value | json }}
{%- endfor %}
    - require:
      - file: Configure the MetalK8s package repository
    - require_in:
      - test: The MetalK8s package repository is ready
{%- endif %}

The MetalK8s package repository is ready:
  test.nop:
    - require:
      - file: Configure the MetalK8s package repository
