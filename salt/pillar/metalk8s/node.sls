# What a machine is before the cluster says more: a node of the version it was called with.
metalk8s:
  node:
    version: {{ saltenv[("metalk8s-" | length):] | json }}
    roles:
      - node
