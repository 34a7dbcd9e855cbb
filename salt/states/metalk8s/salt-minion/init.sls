# The agent by which the Salt master changes this machine.
include:
  - metalk8s.salt-minion.installed
  - metalk8s.salt-minion.certified
  - metalk8s.salt-minion.configured
  - metalk8s.salt-minion.running
