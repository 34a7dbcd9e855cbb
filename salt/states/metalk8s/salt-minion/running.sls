{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
{%- if metalk8s.has_authorities %}
  - metalk8s.salt-master.certified
{%- endif %}
  - metalk8s.salt-minion.certified
  - metalk8s.salt-minion.configured

Run the Salt minion:
  service.running:
    - name: {{ metalk8s.salt_minion.service }}
    - enable: true
{%- if metalk8s.has_authorities %}
    - watch:
      - pkg: Install the Salt minion
      - file: Configure the Salt minion
      - metalk8s_salt_keys: Let the Salt master and the minion of this machine know each other
{%- endif %}
    - require: # it reads them with each connection
      - metalk8s_credentials: Sign the certificate of the Salt minion
{%- if not metalk8s.has_authorities %}

# This is a job of its own: it would not live to say how it went.
Run the Salt minion anew when all is done:
  cmd.run:
    - name: >-
        systemd-run --quiet --collect --unit=metalk8s-salt-minion-anew --on-active=15s
        systemctl restart {{ metalk8s.salt_minion.service }}
    - order: last
    - onchanges:
      - pkg: Install the Salt minion
      - file: Configure the Salt minion
{%- endif %}

# Without this, a minion and its calls would wait for a master that refuses them, for ever.
The Salt master lets the minion in:
  metalk8s_tls.accepted:
    - name: {{ metalk8s.bootstrap_machine.address }}:{{ metalk8s.salt_master.ports.request }}
    - authority: {{ metalk8s.pki.authorities.salt.path }}.crt
    - certificate: {{ metalk8s.salt_minion.certificate }}
    - require:
      - metalk8s_credentials: Sign the certificate of the Salt minion
