{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.container-engine.configured

Run the container engine:
  service.running:
    - name: {{ metalk8s.container_engine.service }}
    - enable: true
    - watch:
      - pkg: Install the container engine
      - file: Configure the container engine
{%- if metalk8s.has_authorities %}

# the registry is a pod itself; the other machines pull from it
Load the image that holds a pod:
  metalk8s_image.loaded:
    - name: {{ metalk8s.container_engine.sandbox_image.reference }}
    - tree: {{ metalk8s.container_engine.sandbox_image.tree }}
    - require:
      - service: Run the container engine
{%- endif %}
