{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set shared = metalk8s.pki.service_accounts.group %}

Create the group that reads the key of service accounts:
  group.present:
    - name: {{ shared.name }}
    - gid: {{ shared.id }}
    - system: true

{%- for account in metalk8s.accounts %}

Create the group {{ account.name }}:
  group.present:
    - name: {{ account.name }}
    - gid: {{ account.id }}
    - system: true

Create the account {{ account.name }}:
  user.present:
    - name: {{ account.name }}
    - uid: {{ account.id }}
    - gid: {{ account.id }}
    - system: true
    - home: /nonexistent
    - createhome: false
    - shell: /usr/sbin/nologin
    - fullname: MetalK8s
    - require:
      - group: Create the group {{ account.name }}
{%- endfor %}
