# Accounts of the programs that run in containers: what is theirs on the machine is nobody else's.
include:
  - metalk8s.accounts.created
