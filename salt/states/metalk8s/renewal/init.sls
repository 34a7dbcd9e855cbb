# Certificates that end soon are made anew, and what uses them reads the new ones, without anybody's doing.
include:
  - metalk8s.renewal.configured
  - metalk8s.renewal.running
