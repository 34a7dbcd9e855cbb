{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set shared = metalk8s.pki.service_accounts.group %}

{%- for account in metalk8s.accounts %}

Remove the account {{ account.name }}:
  user.absent:
    - name: {{ account.name }}

Remove the group {{ account.name }}:
  group.absent:
    - name: {{ account.name }}
    - require:
      - user: Remove the account {{ account.name }}
{%- endfor %}

Remove the group that reads the key of service accounts:
  group.absent:
    - name: {{ shared.name }}
