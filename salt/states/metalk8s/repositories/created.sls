{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set repositories = metalk8s.repositories %}

Create the folders of the repositories:
  file.directory:
    - names:
      - {{ repositories.config_folder }}/conf.d
      - {{ repositories.config_folder }}/tls
    - user: root
    - group: root
    - mode: "0755"
    - makedirs: true
