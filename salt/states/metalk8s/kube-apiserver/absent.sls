{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set folder = metalk8s.pki.authorities.kubernetes.path.rpartition("/")[0] %}

Stop the API server:
  file.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/kube-apiserver.yaml

Remove the certificates of the API server:
  file.absent:
    - names:
{%- for pair in ("apiserver", "apiserver-kubelet-client", "apiserver-etcd-client", "front-proxy-client") %}
      - {{ folder }}/{{ pair }}.crt
      - {{ folder }}/{{ pair }}.key
{%- endfor %}
      - {{ metalk8s.kube_apiserver.encryption }}
    - require:
      - file: Stop the API server
