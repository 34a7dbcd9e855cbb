# Programs that nothing of ours depends on, and that a node, its storage or who looks after it needs.
include:
  - metalk8s.tools.installed
