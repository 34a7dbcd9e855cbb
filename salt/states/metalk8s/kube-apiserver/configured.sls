{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

{%- set account = metalk8s.kube_apiserver.account.name %}
{%- set folder = metalk8s.kube_apiserver.config_folder %}
{%- set audit = metalk8s.kube_apiserver.audit %}

include:
  - metalk8s.accounts
  - metalk8s.authorities

Create the folder of the key that encrypts Secrets:
  file.directory:
    - name: {{ metalk8s.kube_apiserver.encryption.rpartition("/")[0] }}
    - user: {{ account }}
    - group: {{ account }}
    - mode: "0700"
    - require:
      - file: Create the folders of certificates
      - user: Create the account {{ account }}

{%- if metalk8s.has_authorities %}

Have the key that encrypts Secrets:
  metalk8s_credentials.encryption_configuration:
    - name: {{ metalk8s.kube_apiserver.encryption }}
    - keys: {{ metalk8s.kube_apiserver.encryption_keys | json }}
    - header: {{ metalk8s.generated | json }}
    - user: {{ account }}
{%- else %}

Have the key that encrypts Secrets:
  metalk8s_credentials.shared:
    - name: {{ metalk8s.kube_apiserver.encryption }}
    - secret: encryption
    - user: {{ account }}
    - group: {{ account }}
    - mode: "0600"
{%- endif %}
    - require:
      - file: Create the folder of the key that encrypts Secrets

Create the folder of the rules of the API server:
  file.directory:
    - name: {{ folder }}
    - user: root
    - group: root
    - mode: "0755"
    - require:
      - file: Create the folders of certificates
{%- for title, file in (("Say what the API server records", "audit-policy"),
                        ("Say what the API server admits", "admission")) %}

{{ title }}:
  file.managed:
    - name: {{ folder }}/{{ file }}.yaml
    - source: salt://metalk8s/kube-apiserver/files/{{ file }}.yaml.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folder of the rules of the API server
{%- endfor %}

Create the folder of the audit log:
  file.directory:
    - name: {{ audit.folder }}
    - user: {{ account }}
    - group: {{ account }}
    - mode: "0700"
    - require:
      - user: Create the account {{ account }}

# the API server would let everybody read it, but keeps the mode of what is there
Create the audit log:
  file.managed:
    - name: {{ audit.folder }}/audit.log
    - replace: false
    - user: {{ account }}
    - group: {{ account }}
    - mode: "0600"
    - require:
      - file: Create the folder of the audit log
