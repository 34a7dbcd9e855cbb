"""Network policies: from objects to the table of the packet filter that makes them true.

::

    pods, policies (selectors) ──> verdicts (allowed) ──> filters ──> script (for nft)
             └───────── isolation watches, with sandboxes ─────────┘

``verdicts``, ``filters`` and ``script`` are functions of what they are given.
"""
