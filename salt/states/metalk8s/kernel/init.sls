# Modules and settings of the kernel that the network of pods and Services needs.
include:
  - metalk8s.kernel.configured
