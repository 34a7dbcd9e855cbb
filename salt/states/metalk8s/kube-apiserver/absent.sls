{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set folder = metalk8s.pki.authorities.kubernetes.path.rpartition("/")[0] %}

Stop the API server:
  metalk8s_static_pod.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/kube-apiserver.yaml
    - pod: kube-apiserver-{{ metalk8s.node.name }}

Remove the certificates of the API server:
  file.absent:
    - names:
{%- for pair in ("apiserver", "apiserver-kubelet-client", "apiserver-etcd-client", "front-proxy-client") %}
      - {{ folder }}/{{ pair }}.crt
      - {{ folder }}/{{ pair }}.key
{%- endfor %}
      - {{ metalk8s.kube_apiserver.encryption }}
{#- What signs tokens is a master's: a machine that goes on as another one has no use for it #}
      - {{ metalk8s.pki.service_accounts.path }}.key
      - {{ metalk8s.pki.service_accounts.path }}.pub
    - require:
      - metalk8s_static_pod: Stop the API server

Remove the rules and the audit log of the API server:
  file.absent:
    - names:
      - {{ metalk8s.kube_apiserver.config_folder }}
      - {{ metalk8s.kube_apiserver.audit.folder }}
    - require:
      - metalk8s_static_pod: Stop the API server
