{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set pki = metalk8s.pki %}

Remove the certificate authorities:
  file.absent:
    - names:
{#- The certificate of Salt's is all that another machine has of it, and goes with its minion, which needs it to say
    how this went -#}
{%- for name, authority in pki.authorities.items() if metalk8s.has_authorities or name != "salt" %}
      - {{ authority.path }}.crt
      - {{ authority.path }}.key
{%- endfor %}
      - {{ pki.authority.record }}
      - {{ pki.policies }}
      - {{ pki.service_accounts.path }}.key
      - {{ pki.service_accounts.path }}.pub
