{%- from "metalk8s/map.jinja" import metalk8s with context %}

Take kube-proxy away:
  metalk8s_kubernetes.deleted:
    - source: salt://metalk8s/kube-proxy/files/objects.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
