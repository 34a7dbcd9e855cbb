{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.accounts

Make the key that encrypts Secrets:
  metalk8s_credentials.encryption_configuration:
    - name: {{ metalk8s.kube_apiserver.encryption }}
    - keys: {{ metalk8s.kube_apiserver.encryption_keys | json }}
    - header: {{ metalk8s.generated | json }}
    - user: {{ metalk8s.kube_apiserver.account.name }}
    - require:
      - user: Create the account {{ metalk8s.kube_apiserver.account.name }}
