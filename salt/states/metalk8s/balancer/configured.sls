{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set balancer = metalk8s.balancer %}

include:
  - metalk8s.authorities

Create the folder of the balancer:
  file.directory:
    - name: {{ balancer.config_folder }}
    - user: root
    - group: root
    - mode: "0755"
    - require:
      - file: Create the folders of certificates

Configure the balancer:
  file.managed:
    - name: {{ balancer.config_folder }}/haproxy.cfg
    - source: salt://metalk8s/balancer/files/haproxy.cfg.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folder of the balancer
