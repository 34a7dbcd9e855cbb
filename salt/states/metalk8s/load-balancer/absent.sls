{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Take away what gives Services their addresses:
  metalk8s_kubernetes.deleted:
    - source: salt://metalk8s/load-balancer/files/objects.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}

# with all pools that there are
Forget what a pool of addresses is:
  metalk8s_kubernetes.deleted:
    - source: salt://metalk8s/load-balancer/files/definition.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
    - require:
      - metalk8s_kubernetes: Take away what gives Services their addresses
