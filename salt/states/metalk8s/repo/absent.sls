{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Remove the MetalK8s package repository:
  file.absent:
    - name: {{ metalk8s.repo.source }}

{%- if metalk8s.repo.refresh.command %}

Remove the index of the MetalK8s package repository:
  file.tidied:
    - name: {{ metalk8s.repo.refresh.indexes }}
    - matches:
      - {{ metalk8s.repo.path | replace("/", "_") | regex_escape }}_.*
{%- endif %}
