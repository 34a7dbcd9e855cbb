{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.kube-apiserver.running

Say which pods are taken from whom:
  metalk8s_kubernetes.applied:
    - source: salt://metalk8s/pod-security/files/objects.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
    - require:
      - metalk8s_kubernetes: The API server answers
