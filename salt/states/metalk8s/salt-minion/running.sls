{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.salt-master.certified
  - metalk8s.salt-minion.certified
  - metalk8s.salt-minion.configured

Run the Salt minion:
  service.running:
    - name: {{ metalk8s.salt_minion.service }}
    - enable: true
    - watch:
      - pkg: Install the Salt minion
      - file: Configure the Salt minion
      - metalk8s_salt_keys: Let the Salt master and the minion of this machine know each other
    - require: # it reads them with each connection
      - metalk8s_credentials: Sign the certificate of the Salt minion

# Without this, a minion and its calls would wait for a master that refuses them, for ever.
The Salt master lets the minion in:
  metalk8s_tls.accepted:
    - name: {{ metalk8s.networks.control_plane.address }}:{{ metalk8s.salt_master.ports.request }}
    - authority: {{ metalk8s.pki.authorities.salt.path }}.crt
    - certificate: {{ metalk8s.salt_minion.certificate }}
    - require:
      - metalk8s_credentials: Sign the certificate of the Salt minion
