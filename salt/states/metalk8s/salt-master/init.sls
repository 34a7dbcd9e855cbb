# The master of all machines' Salt: a pod that the kubelet runs without an API server.
include:
  - metalk8s.salt-master.created
  - metalk8s.salt-master.certified
  - metalk8s.salt-master.configured
  - metalk8s.salt-master.running
