{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set renewal = metalk8s.renewal %}

include:
  - metalk8s.authorities

{%- if metalk8s.has_authorities %}

Create the folder of the renewal of certificates:
  file.directory:
    - name: {{ renewal.config_folder }}
    - user: root
    - group: root
    - mode: "0755"
    - require:
      - file: Create the folders of certificates

Configure the Salt that renews certificates:
  file.managed:
    - name: {{ renewal.config_folder }}/minion
    - source: salt://metalk8s/renewal/files/minion.conf.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folder of the renewal of certificates
{%- endif %}

Describe the renewal of certificates:
  file.managed:
    - name: {{ renewal.units }}/{{ renewal.name }}.service
    - source: salt://metalk8s/renewal/files/renewal.service.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"

Describe when certificates are renewed:
  file.managed:
    - name: {{ renewal.units }}/{{ renewal.name }}.timer
    - source: salt://metalk8s/renewal/files/renewal.timer.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
