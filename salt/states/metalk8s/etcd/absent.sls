{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set folder = metalk8s.pki.authorities.etcd.path.rpartition("/")[0] %}

Stop etcd:
  metalk8s_static_pod.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/etcd.yaml
    - pod: etcd-{{ metalk8s.node.name }}

Release the version of the client of etcd:
  pkg.unheld:
    - pkgs: {{ metalk8s.etcd.packages | json }}

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
      - metalk8s_static_pod: Stop etcd

Remove the data of etcd:
  cmd.run:
    - name: find {{ metalk8s.etcd.data }} -mindepth 1 -maxdepth 1 -exec rm -r {} +
    - onlyif: find {{ metalk8s.etcd.data }} -mindepth 1 | grep --quiet .
    - require:
      - metalk8s_static_pod: Stop etcd
