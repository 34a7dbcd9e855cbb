"""Lets the pods of all machines of a cluster reach each other.

::

    isolation (Pods, Namespaces, NetworkPolicies) ──> kernel (nftables)

    peers (Nodes) ──┐
    machine (own) ──┼──> plan ──> wanted ──┬──> kernel (routes, tunnel: ip, bridge)
    settings ───────┘                      ├──> packets (nftables)
                                           └──> cni (what the container engine reads)

``peers``, ``plan``, ``difference`` and ``packets`` are functions of what they are given. ``agent``
is the program: it compares, and changes what differs.
"""
