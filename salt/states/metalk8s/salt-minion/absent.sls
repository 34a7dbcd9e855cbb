{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

# The package stays: it is what applies this.
Stop the Salt minion:
  service.dead:
    - name: {{ metalk8s.salt_minion.service }}
    - enable: false
    - no_block: false # Salt would not wait for its own, which makes new keys when it misses them

Release the version of the Salt minion:
  pkg.unheld:
    - pkgs: {{ metalk8s.salt_minion.packages | json }}

Remove the configuration of the Salt minion:
  file.absent:
    - names:
      - {{ metalk8s.salt_minion.config }}
{%- for key in ("minion.pem", "minion.pub", "minion_master.pub") %}
      - {{ metalk8s.salt_minion.key_folder }}/{{ key }}
{%- endfor %}
      - {{ metalk8s.salt_minion.certificate }}.crt
      - {{ metalk8s.salt_minion.certificate }}.key
{%- if not metalk8s.has_authorities %}
      - {{ metalk8s.pki.authorities.salt.path }}.crt
{%- endif %}
    - require:
      - service: Stop the Salt minion
