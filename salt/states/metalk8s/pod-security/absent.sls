{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Forget which pods are taken from whom:
  metalk8s_kubernetes.deleted:
    - source: salt://metalk8s/pod-security/files/objects.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
