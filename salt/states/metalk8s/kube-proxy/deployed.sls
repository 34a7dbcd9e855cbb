{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.kube-apiserver.running
  # it is root on the node's network: without the policies, none of its pods is taken
  - metalk8s.pod-security.deployed

Deploy kube-proxy:
  metalk8s_kubernetes.applied:
    - source: salt://metalk8s/kube-proxy/files/objects.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
    - require:
      - metalk8s_kubernetes: The API server answers
      - metalk8s_kubernetes: Say which pods are taken from whom

The kube-proxy of this machine is healthy:
  metalk8s_tls.healthy:
    - name: http://127.0.0.1:{{ metalk8s.ports.kube_proxy_health.number }}/healthz
    - require:
      - metalk8s_kubernetes: Deploy kube-proxy
