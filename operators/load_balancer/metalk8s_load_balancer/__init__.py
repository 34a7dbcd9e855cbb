"""Addresses for Services of type ``LoadBalancer``, and machines that answer at them.

::

    allocator ──> allocation ─┬─> pools
        └──> notes            └─> objects
    speaker ──> placement ────────^
        ├─────> keepalived, bird ──> placement, peers
        └─────> filters, programs, machine
"""
