{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set pki = metalk8s.pki %}

Remove the certificate authorities:
  file.absent:
    - names:
{%- for authority in pki.authorities.values() %}
      - {{ authority.path }}.crt
      - {{ authority.path }}.key
{%- endfor %}
      - {{ pki.authority.record }}
      - {{ pki.policies }}
      - {{ pki.service_accounts.path }}.key
      - {{ pki.service_accounts.path }}.pub
