"""What deploy-node.sh and remove-node.sh run: the steps of the Salt master's runner, one by one.

Python 3.9 or later and its standard library::

    command ─┬─> runner ─┬─> cluster   kubectl
             │           └─> dialog    kubectl exec …  salt-run metalk8s_deploy.serve
             └─> report                what the operator sees of problems and plans

What is planned and done is the runner's; here are only progress, log and exit status.
"""
