{%- from "metalk8s/map.jinja" import metalk8s with context %}

include:
  - metalk8s.container-engine.configured

Run the container engine:
  service.running:
    - name: {{ metalk8s.container_engine.service }}
    - enable: true
    - watch:
      - pkg: Install the container engine
      - file: Configure the container engine
