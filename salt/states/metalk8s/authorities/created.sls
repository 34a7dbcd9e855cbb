{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set pki = metalk8s.pki %}
{%- set tokens = pki.service_accounts %}

include:
  - metalk8s.accounts

Create the folders of certificates:
  file.directory:
    - names: {{ pki.folders | json }}
    - user: root
    - group: root
    - mode: "0755"

{%- for name, authority in pki.authorities.items() %}
{%- set title = name | replace("_", " ") %}
{%- set account = metalk8s[authority.signer].account.name if authority.signer is defined else "root" %}

Make the key of the authority for {{ title }}:
  metalk8s_pki.private_key:
    - name: {{ authority.path }}.key
    - key_bits: {{ pki.key_bits }}
    - user: {{ account }}
    - require:
      - file: Create the folders of certificates
{%- if account != "root" %}
      - user: Create the account {{ account }}
{%- endif %}

Sign the certificate of the authority for {{ title }}:
  metalk8s_pki.authority:
    - name: {{ authority.path }}.crt
    - private_key: {{ authority.path }}.key
    - common_name: {{ authority.common_name }}
    - days_valid: {{ pki.authority.days_valid }}
    - require:
      - metalk8s_pki: Make the key of the authority for {{ title }}
    - require_in:
      - test: The certificate authorities are ready
{%- endfor %}

Make the key of service accounts:
  metalk8s_pki.private_key:
    - name: {{ tokens.path }}.key
    - key_bits: {{ pki.key_bits }}
    - user: root
    - group: {{ tokens.group.name }}
    - mode: "0640" # the API server signs with it, and so does the controller manager
    - require:
      - file: Create the folders of certificates
      - group: Create the group that reads the key of service accounts

Write the public key of service accounts:
  metalk8s_credentials.public_key:
    - name: {{ tokens.path }}.pub
    - private_key: {{ tokens.path }}.key
    - require:
      - metalk8s_pki: Make the key of service accounts
    - require_in:
      - test: The certificate authorities are ready

Say who may have which certificate:
  file.managed:
    - name: {{ pki.policies }}
    - source: salt://metalk8s/authorities/files/policies.yaml.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folders of certificates
    - require_in:
      - test: The certificate authorities are ready

The certificate authorities are ready:
  test.nop:
    - require:
      - file: Create the folders of certificates
