"""Names of a cluster's Services and pods, as the Kubernetes DNS specification 1.1.0 has them.

::

    objects (Services, Endpoints, Pods) ──> records ──> catalog ──┐
    names (what a name may be, zones) ────────^                   │
                                                       watcher <──┴──> authority, cache
    resolvers (resolv.conf) ──> configuration (of Knot and Unbound)
    settings; cluster (the API server); libknot

``objects``, ``names``, ``records``, ``resolvers`` and ``configuration`` are functions of what they
are given. ``watcher`` is the program: it compares, and changes what differs.
"""
