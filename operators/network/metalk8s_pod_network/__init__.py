"""Lets the pods of all machines of a cluster reach each other.

::

    pods, policies, peers ──> isolation: verdicts ──> filters ──> script ──> kernel (nftables)

    peers (Nodes) ──┐
    machine (own) ──┼──> plan ──> wanted ──┬──> kernel (routes, tunnel: ip, bridge)
    settings ───────┘                      ├──> packets (nftables)
                                           └──> cni (what the container engine reads)

``peers``, ``plan``, ``difference``, ``packets``, ``verdicts``, ``filters`` and ``script`` are
functions of what they are given. ``agent`` is the program: it compares, and changes what differs.
"""
