{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

{%- set account = metalk8s.kube_apiserver.account.name %}

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

Make the key that encrypts Secrets:
  metalk8s_credentials.encryption_configuration:
    - name: {{ metalk8s.kube_apiserver.encryption }}
    - keys: {{ metalk8s.kube_apiserver.encryption_keys | json }}
    - header: {{ metalk8s.generated | json }}
    - user: {{ account }}
    - require:
      - file: Create the folder of the key that encrypts Secrets
