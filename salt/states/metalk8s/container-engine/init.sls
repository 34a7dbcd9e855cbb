# The container runtime of the node: containerd with runc, speaking CRI on its own socket.
include:
  - metalk8s.container-engine.installed
  - metalk8s.container-engine.configured
  - metalk8s.container-engine.running
