{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.renewal.configured

Run the renewal of certificates every day:
  service.running:
    - name: {{ metalk8s.renewal.name }}.timer
    - enable: true
    - watch:
{%- if metalk8s.has_authorities %}
      - file: Configure the Salt that renews certificates
{%- endif %}
      - file: Describe the renewal of certificates
      - file: Describe when certificates are renewed
