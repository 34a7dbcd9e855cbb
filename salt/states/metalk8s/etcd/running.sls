{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set name = metalk8s.node.name %}
{%- set address = metalk8s.networks.control_plane.address %}
{%- set folder = metalk8s.pki.authorities.etcd.path.rpartition("/")[0] %}
{%- set others = metalk8s.etcd.members.keys() | reject("equalto", name) | list %}
{#- Restored without /var, the machine has lost what the cluster said of the others. Those that joined are pinned in
    /etc, with or without a member: while there are any, no cluster is begun beside theirs -#}
{%- if metalk8s.has_authorities and not others %}
  {%- set others = salt["metalk8s_machines.pinned"]().keys() | sort %}
{%- endif %}

include:
  - metalk8s.authorities
  - metalk8s.etcd.installed
  - metalk8s.etcd.certified
  - metalk8s.kubelet.running

Create the folder of what etcd began with:
  file.directory:
    - name: /etc/metalk8s/etcd
    - user: root
    - group: root
    - mode: "0755"
    - require:
      - file: Create the folders of certificates

Make this machine a member of etcd:
  metalk8s_etcd.member:
    - name: {{ name | json }}
    - address: {{ address }}
    - first: {{ metalk8s.has_authorities | json }}
    - others: {{ others | json }}
    - data: {{ metalk8s.etcd.data }}
    - manifest: {{ metalk8s.kubelet.static_pods }}/etcd.yaml
    - require:
      - pkg: Install the client of etcd
      - file: Create the folder of what etcd began with
      - metalk8s_credentials: Sign the certificate of the etcd health check

# Not before: on a new disk, a member of long ago would begin as it once did.
Create the folder of etcd:
  file.directory:
    - name: {{ metalk8s.etcd.data }}
    - user: {{ metalk8s.etcd.account.name }}
    - group: {{ metalk8s.etcd.account.name }}
    - mode: "0700"
    - require:
      - metalk8s_etcd: Make this machine a member of etcd

Run etcd:
  metalk8s_static_pod.managed:
    - name: {{ metalk8s.kubelet.static_pods }}/etcd.yaml
    - source: salt://metalk8s/etcd/files/manifest.yaml.j2
    - pod: etcd-{{ metalk8s.node.name }}
    - context:
        metalk8s: {{ metalk8s | json }}
        certificates: {{ folder }}
    - config_files:
      - {{ folder }}/ca.crt
{%- for pair in ("server", "peer") %}
      - {{ folder }}/{{ pair }}.crt
      - {{ folder }}/{{ pair }}.key
{%- endfor %}
    - require:
      - file: Create the folder of etcd
      - metalk8s_credentials: Sign the certificate of the etcd server
      - metalk8s_credentials: Sign the certificate of the etcd peer
      - service: Run the kubelet

Let this machine vote in etcd:
  metalk8s_etcd.votes:
    - name: {{ name | json }}
    - address: {{ address }}
    - require:
      - metalk8s_static_pod: Run etcd

The etcd of this machine is healthy:
  metalk8s_tls.healthy:
    - name: http://127.0.0.1:{{ metalk8s.ports.etcd_health.number }}/health
    - require:
      - metalk8s_etcd: Let this machine vote in etcd
