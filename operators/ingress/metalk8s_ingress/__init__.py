"""Requests from outside reach Services, as Ingresses of networking.k8s.io/v1 say, by HAProxy.

::

    objects (Ingresses, classes, Services, Endpoints, Nodes), secrets ──┐
    names, options ──> routes, backends, certificates ──> model <───────┘
                                                            v
    slots ──────────────────────────────────> configuration (files of HAProxy)
                                                            v
    haproxy (its sockets) <── proxy (files, runtime, reload) <── controller ──> reports
    settings; cluster (the API server)

Down to ``configuration``, all are functions of what they are given. ``controller`` is the program:
it compares, and changes what differs.
"""
