{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.kube-apiserver.running
  # without the policies, none of its pods is taken
  - metalk8s.pod-security.deployed

Deploy ingress:
  metalk8s_kubernetes.applied:
    - source: salt://metalk8s/ingress/files/objects.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
    - require:
      - metalk8s_kubernetes: The API server answers
      - metalk8s_kubernetes: Say which pods are taken from whom
