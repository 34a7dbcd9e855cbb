# The clock of the machine: masters agree on the time and serve it, the others follow them. A time service that the site
# chose is left alone.
include:
  - metalk8s.clock.configured
  - metalk8s.clock.installed
  - metalk8s.clock.running
