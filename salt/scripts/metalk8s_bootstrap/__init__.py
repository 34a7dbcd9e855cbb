"""What bootstrap.sh runs: checks of the configuration and the machine, then the steps.

Python 3.9 or later, its standard library and PyYAML; nothing is installed for it::

    command ─┬─> configuration ─> document      /etc/metalk8s/bootstrap.yaml
             ├─> checks ──> machine             what the machine is like, read only
             ├─> record                         whether it was done already
             └─> steps ──> progress             what is done, with its log

Everything says what is wrong as ``problems.Problem``.
"""
