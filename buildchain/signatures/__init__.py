"""Keys and signatures, also those that are made on another machine, where the release key is.

::

    a step wants a signature ──> elsewhere ── is it there? ── yes: proven with gpgv, and used
                                                  └─ no: asked for, and the step waits

    _build/signatures/wanted ──> request (tar) ~~> sign.sh or sign ~~> answer (tar)
    _build/signatures/answers/ <── every one of them proven <───────────────┘

Signatures nest: that of a package is part of the repository, that of the repository part of the
medium. So this goes in rounds (ADR 25).
"""
