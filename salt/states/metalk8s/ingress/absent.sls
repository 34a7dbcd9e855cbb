{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Take ingress away:
  metalk8s_kubernetes.deleted:
    - source: salt://metalk8s/ingress/files/objects.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
