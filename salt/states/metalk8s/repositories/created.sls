{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set repositories = metalk8s.repositories %}

include:
  - metalk8s.authorities

Create the folders of the repositories:
  file.directory:
    - names:
      - {{ repositories.config_folder }}
      - {{ repositories.config_folder }}/conf.d
      - {{ repositories.config_folder }}/tls
    - user: root
    - group: root
    - mode: "0755"
    - require:
      - file: Create the folders of certificates
