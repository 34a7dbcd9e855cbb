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

{%- if metalk8s.has_authorities %}

# before anything else: what is lost is not made anew
Nothing of the authorities is lost:
  metalk8s_authorities.intact:
    - name: {{ pki.authority.record }}
    - pairs:
{%- for authority in pki.authorities.values() %}
      - {key: {{ authority.path }}.key, public: {{ authority.path }}.crt}
{%- endfor %}
      - {key: {{ tokens.path }}.key, public: {{ tokens.path }}.pub}
    - require:
      - file: Create the folders of certificates

{%- for name, authority in pki.authorities.items() %}
{%- set title = name | replace("_", " ") %}
{%- set account = metalk8s[authority.signer].account.name if authority.signer is defined else "root" %}

Make the key of the authority for {{ title }}:
  metalk8s_pki.private_key:
    - name: {{ authority.path }}.key
    - key_bits: {{ pki.authority.key_bits }}
    - kept: true
    - user: {{ account }}
    - require:
      - metalk8s_authorities: Nothing of the authorities is lost
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
    - key_bits: {{ pki.authority.key_bits }}
    - kept: true
    - user: root
    - group: {{ tokens.group.name }}
    - mode: "0640" # the API server signs with it, and so does the controller manager
    - require:
      - metalk8s_authorities: Nothing of the authorities is lost
      - group: Create the group that reads the key of service accounts

Write the public key of service accounts:
  metalk8s_credentials.public_key:
    - name: {{ tokens.path }}.pub
    - private_key: {{ tokens.path }}.key
    - require:
      - metalk8s_pki: Make the key of service accounts
    - require_in:
      - test: The certificate authorities are ready

Remember what the authorities were made of:
  metalk8s_authorities.recorded:
    - name: {{ pki.authority.record }}
    - files:
{%- for authority in pki.authorities.values() %}
      - {{ authority.path }}.key
      - {{ authority.path }}.crt
{%- endfor %}
      - {{ tokens.path }}.key
    - require:
      - metalk8s_pki: Make the key of service accounts
{%- for name in pki.authorities %}
      - metalk8s_pki: Sign the certificate of the authority for {{ name | replace("_", " ") }}
{%- endfor %}
    - require_in:
      - test: The certificate authorities are ready

{%- else %}
{#- Another machine has the keys: it signs what this one asks for, through the Salt master -#}
{%- for name, authority in pki.authorities.items() %}

Trust the authority for {{ name | replace("_", " ") }}:
  file.managed:
    - name: {{ authority.path }}.crt
    - contents_pillar: metalk8s:authorities:{{ name }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folders of certificates
    - require_in:
      - test: The certificate authorities are ready
{%- endfor %}
{%- if "master" in metalk8s.node.roles %}

Get the key of service accounts:
  metalk8s_credentials.shared:
    - name: {{ tokens.path }}.key
    - secret: service_accounts
    - user: root
    - group: {{ tokens.group.name }}
    - mode: "0640" # the API server signs with it, and so does the controller manager
    - require:
      - file: Say who may have which certificate
      - group: Create the group that reads the key of service accounts

Write the public key of service accounts:
  metalk8s_credentials.public_key:
    - name: {{ tokens.path }}.pub
    - private_key: {{ tokens.path }}.key
    - require:
      - metalk8s_credentials: Get the key of service accounts
    - require_in:
      - test: The certificate authorities are ready
{%- endif %}
{%- endif %}

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
