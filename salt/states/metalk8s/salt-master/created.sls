{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set master = metalk8s.salt_master %}

include:
  - metalk8s.authorities

Create the folders of the Salt master:
  file.directory:
    - names:
      - {{ master.config_folder }}
      - {{ master.config_folder }}/master.d
      - {{ master.config_folder }}/site
      - {{ master.config_folder }}/site/authorities
      - {{ master.config_folder }}/tls
    - user: root
    - group: root
    - mode: "0755"
    - require:
      - file: Create the folders of certificates

Create the folder of the data of MetalK8s:
  file.directory:
    - name: {{ master.data.rpartition("/")[0] }}
    - user: root
    - group: root
    - mode: "0755"
