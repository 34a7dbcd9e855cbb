{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set master = metalk8s.salt_master %}

include:
  - metalk8s.repositories.running
  - metalk8s.salt-master.certified
  - metalk8s.salt-master.configured

Create the folder of the Salt master:
  file.directory:
    - name: {{ master.data }}
    - user: {{ master.account.name }}
    - group: {{ master.account.name }}
    - mode: "0700"
    - require:
      - file: Create the folder of the data of MetalK8s
      - user: Create the account {{ master.account.name }}

Run the Salt master:
  metalk8s_static_pod.managed:
    - name: {{ metalk8s.kubelet.static_pods }}/salt-master.yaml
    - source: salt://metalk8s/salt-master/files/manifest.yaml.j2
    - pod: salt-master-{{ metalk8s.node.name }}
    - context:
        metalk8s: {{ metalk8s | json }}
    - config_files:
      - {{ master.config_folder }}/master.d/metalk8s.conf
      - {{ metalk8s.pki.authorities.salt.path }}.crt
      - {{ master.config_folder }}/tls/master.crt
      - {{ master.config_folder }}/tls/master.key
    - require:
      - file: Configure the Salt master
      - file: Create the folder of the Salt master
      - file: Give the bootstrap configuration to the Salt master
      - metalk8s_salt_keys: Let the Salt master and the minion of this machine know each other
      - metalk8s_credentials: Sign the certificate of the Salt master
      - service: Run the kubelet
      - metalk8s_tls: The repositories answer
