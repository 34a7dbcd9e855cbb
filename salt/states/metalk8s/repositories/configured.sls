{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set repositories = metalk8s.repositories %}

include:
  - metalk8s.repositories.created

Configure the repositories:
  file.managed:
    - name: {{ repositories.config_folder }}/conf.d/repositories.conf
    - source: salt://metalk8s/repositories/files/repositories.conf.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folders of the repositories
