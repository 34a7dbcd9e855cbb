"""Releases at a place where others get them: publish and fetch.

::

    steps ──> publish ─┬─> change ─┬─> trust ──> index
         └──> fetch ───┘           └─> place <── folder, web, remote, bucket <── address
              release ─────────────────────────> index

At a place::

    releases.json                       which releases there are, and in which channels: the index
    signatures/releases-<SHA-256>.sig   signature of the index with that digest
    <version>/…                         the files of a release, its signed SHA256SUM among them

ADR 27 says what is signed by whom, and why nothing can be hidden or moved on the way.
"""
