{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set folder = metalk8s.pki.authorities.etcd.path.rpartition("/")[0] %}
{%- set name = metalk8s.node.name %}
{%- set others = {} %}
{%- for other, address in metalk8s.etcd.members.items() if other != name %}
  {%- do others.update({other: address}) %}
{%- endfor %}

# What a member holds is not this machine's alone: while others count on it, nothing else goes either.
No other member of etcd counts on this one:
  metalk8s_etcd.left:
    - name: {{ name | json }}
    - others: {{ others | json }}
    - data: {{ metalk8s.etcd.data }}
    - order: first
    - failhard: true

Stop etcd:
  metalk8s_static_pod.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/etcd.yaml
    - pod: etcd-{{ name }}
    - require:
      - metalk8s_etcd: No other member of etcd counts on this one

Release the version of the client of etcd:
  pkg.unheld:
    - pkgs: {{ metalk8s.etcd.packages | json }}
    - require:
      - metalk8s_static_pod: Stop etcd

Remove the client of etcd:
  pkg.purged:
    - pkgs: {{ metalk8s.etcd.packages | map("first") | list | json }}
    - require:
      - pkg: Release the version of the client of etcd

Remove the certificates of etcd:
  file.absent:
    - names:
{%- for pair in ("server", "peer", "healthcheck-client") %}
      - {{ folder }}/{{ pair }}.crt
      - {{ folder }}/{{ pair }}.key
{%- endfor %}
    - require:
      # with them, others are asked whether they need the data
      - cmd: Remove the data of etcd

Remove what etcd began with:
  file.absent:
    - name: /etc/metalk8s/etcd
    - require:
      - metalk8s_static_pod: Stop etcd

Remove the data of etcd:
  cmd.run:
    - name: find {{ metalk8s.etcd.data }} -mindepth 1 -maxdepth 1 -exec rm -r {} +
    - onlyif: find {{ metalk8s.etcd.data }} -mindepth 1 | grep --quiet .
    - require:
      - metalk8s_static_pod: Stop etcd
