{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set renewal = metalk8s.renewal %}

Stop the renewal of certificates:
  service.dead:
    - name: {{ renewal.name }}.timer
    - enable: false

End a renewal that runs:
  service.dead:
    - name: {{ renewal.name }}.service
    - require:
      - service: Stop the renewal of certificates

Remove the renewal of certificates:
  file.absent:
    - names:
      - {{ renewal.config_folder }}
      - {{ renewal.units }}/{{ renewal.name }}.service
      - {{ renewal.units }}/{{ renewal.name }}.timer
    - require:
      - service: End a renewal that runs

Forget the units of the renewal:
  cmd.run:
    - name: systemctl daemon-reload
    - onchanges:
      - file: Remove the renewal of certificates
