{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.kube-apiserver.running
  # the speaker is root on the machine's network: without the policies, none of its pods is taken
  - metalk8s.pod-security.deployed

Say what a pool of addresses is:
  metalk8s_kubernetes.applied:
    - source: salt://metalk8s/load-balancer/files/definition.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
    - require:
      - metalk8s_kubernetes: The API server answers

Deploy what gives Services their addresses:
  metalk8s_kubernetes.applied:
    - source: salt://metalk8s/load-balancer/files/objects.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
    - require:
      - metalk8s_kubernetes: Say what a pool of addresses is
      - metalk8s_kubernetes: Say which pods are taken from whom
