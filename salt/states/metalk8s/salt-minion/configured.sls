{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.salt-minion.installed

Configure the Salt minion:
  file.managed:
    - name: {{ metalk8s.salt_minion.config }}
    - source: salt://metalk8s/salt-minion/files/minion.conf.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - pkg: Install the Salt minion
