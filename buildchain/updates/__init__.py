"""Update packs: what one ISO has and an older one has not.

::

    steps ──> make ──> pack ──> recipe

``salt/scripts/apply-update.sh`` on the medium makes the new ISO out of the old one and a pack.
ADR 38 says why it is made of sectors.
"""
