{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set folder = metalk8s.pki.authorities.etcd.path.rpartition("/")[0] %}

Stop etcd:
  file.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/etcd.yaml

Remove the certificates of etcd:
  file.absent:
    - names:
{%- for pair in ("server", "peer", "healthcheck-client") %}
      - {{ folder }}/{{ pair }}.crt
      - {{ folder }}/{{ pair }}.key
{%- endfor %}
    - require:
      - file: Stop etcd

Remove the data of etcd:
  cmd.run:
    - name: find {{ metalk8s.etcd.data }} -mindepth 1 -maxdepth 1 -exec rm -r {} +
    - onlyif: find {{ metalk8s.etcd.data }} -mindepth 1 | grep --quiet .
    - require:
      - file: Stop etcd
