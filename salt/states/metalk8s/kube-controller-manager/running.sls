{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set pki = metalk8s.pki %}

include:
  - metalk8s.kubelet.running
  - metalk8s.kube-controller-manager.certified

Run the controller manager:
  metalk8s_static_pod.managed:
    - name: {{ metalk8s.kubelet.static_pods }}/kube-controller-manager.yaml
    - source: salt://metalk8s/kube-controller-manager/files/manifest.yaml.j2
    - pod: kube-controller-manager-{{ metalk8s.node.name }}
    - context:
        metalk8s: {{ metalk8s | json }}
        certificates: {{ pki.authorities.kubernetes.path.rpartition("/")[0] }}
    - config_files:
      - {{ metalk8s.kube_controller_manager.kubeconfig }}
      - {{ pki.authorities.kubernetes.path }}.crt
{%- if metalk8s.has_authorities %}
      - {{ pki.authorities.kubernetes.path }}.key
{%- endif %}
      - {{ pki.authorities.front_proxy.path }}.crt
      - {{ pki.service_accounts.path }}.key
    - require:
      - metalk8s_credentials: Let the controller manager into the API
      - service: Run the kubelet

The controller manager is healthy:
  metalk8s_tls.healthy:
    - name: https://127.0.0.1:{{ metalk8s.ports.kube_controller_manager.number }}/healthz
    - require:
      - metalk8s_static_pod: Run the controller manager
