{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set master = metalk8s.salt_master %}

include:
  - metalk8s.accounts
  - metalk8s.authorities
  - metalk8s.salt-master.created

Configure the Salt master:
  file.managed:
    - name: {{ master.config_folder }}/master.d/metalk8s.conf
    - source: salt://metalk8s/salt-master/files/master.conf.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folders of the Salt master

{%- for name, authority in metalk8s.pki.authorities.items() %}

Tell the Salt master of the authority for {{ name | replace("_", " ") }}:
  file.managed:
    - name: {{ master.config_folder }}/site/authorities/{{ name }}.crt
    - source: {{ authority.path }}.crt
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folders of the Salt master
      - test: The certificate authorities are ready
{%- endfor %}

# A copy, which the master's account may read: of /etc/metalk8s itself the pod sees nothing.
Give the bootstrap configuration to the Salt master:
  file.managed:
    - name: {{ master.config_folder }}/site/bootstrap.yaml
    - source: /etc/metalk8s/bootstrap.yaml
    - user: root
    - group: {{ master.account.name }}
    - mode: "0640"
    - show_changes: false
    - require:
      - file: Create the folders of the Salt master
      - group: Create the group {{ master.account.name }}
