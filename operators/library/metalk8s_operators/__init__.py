"""What MetalK8s' programs in the cluster have in common.

::

    backoff ──> informer ──> (a program) <── report
    client ────────^   └──> leader ──^

Only the standard library: what runs on every machine has to be small.
"""
