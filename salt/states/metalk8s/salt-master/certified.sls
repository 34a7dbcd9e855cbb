{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import certificate, kubeconfig %}
{%- set master = metalk8s.salt_master %}

include:
  - metalk8s.accounts
  - metalk8s.authorities
  - metalk8s.salt-master.created

{{ certificate(metalk8s, "the Salt master", master.config_folder ~ "/tls/master", "salt_master",
               master.account.name) }}

Let the Salt master into the API:
{{- kubeconfig(metalk8s, master.config_folder ~ "/site/kubeconfig", metalk8s.kube_apiserver.local_url,
               "salt_master_to_apiserver", master.account.name) }}
      - file: Create the folders of the Salt master

Create the folders of Salt keys:
  file.directory:
    - names:
      - {{ master.key_folder }}:
        - user: {{ master.account.name }}
        - group: {{ master.account.name }}
      - {{ master.key_folder }}/minions:
        - user: {{ master.account.name }}
        - group: {{ master.account.name }}
      - {{ metalk8s.salt_minion.key_folder.rpartition("/")[0] }}:
        - user: root
        - group: root
      - {{ metalk8s.salt_minion.key_folder }}:
        - user: root
        - group: root
    - mode: "0700"
    - require:
      - file: Create the folders of certificates
      - user: Create the account {{ master.account.name }}

Let the Salt master and the minion of this machine know each other:
  metalk8s_salt_keys.exchanged:
    - name: {{ metalk8s.node.name | json }}
    - master_keys: {{ master.key_folder }}
    - minion_keys: {{ metalk8s.salt_minion.key_folder }}
    - account: {{ master.account.name }}
    - key_bits: {{ metalk8s.pki.key_bits }}
    - require:
      - file: Create the folders of Salt keys
