{%- from "metalk8s/map.jinja" import metalk8s with context %}

include:
  - metalk8s.salt-master.certified
  - metalk8s.salt-minion.configured

Run the Salt minion:
  service.running:
    - name: {{ metalk8s.salt_minion.service }}
    - enable: true
    - watch:
      - pkg: Install the Salt minion
      - file: Configure the Salt minion
      - metalk8s_salt_keys: Let the Salt master and the minion of this machine know each other
