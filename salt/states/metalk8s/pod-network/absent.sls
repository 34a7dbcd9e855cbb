{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

# what it has written into kernels stays until the container engine goes: packets of pods that run go on
Take the network of pods away:
  metalk8s_kubernetes.deleted:
    - source: salt://metalk8s/pod-network/files/objects.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
