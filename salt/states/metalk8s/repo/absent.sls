{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Remove the MetalK8s package repository:
  file.absent:
    - names:
      - {{ metalk8s.repo.source }}
{%- if not metalk8s.repo.is_local %}
{%- for path in metalk8s.repo.signing_keys %}
      - {{ path }}
{%- endfor %}
{%- if metalk8s.repo.transport.file %}
      - {{ metalk8s.repo.transport.file }}
{%- endif %}
{%- endif %}

{%- if metalk8s.repo.refresh.command %}

Remove the index of the MetalK8s package repository:
  file.tidied:
    - name: {{ metalk8s.repo.refresh.indexes }}
    - matches:
      - {{ metalk8s.repo.url | replace("file:", "") | replace("https://", "") | replace("/", "_") | regex_escape }}_.*
{%- endif %}
