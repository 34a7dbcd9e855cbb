"""The MetalK8s build chain: pinned inputs in, one signed ISO out.

A folder is a room: one subject, with its part of the graph in ``steps.py``. Rooms stand in the
order of the pipeline, and import themselves and what is above (``tests/unit/test_imports.py`` has
the table and proves it)::

    core, project, machine, store, signatures      what everything stands on
    debian, packages, redhat, repositories         packages, signed
    pulls, images, salt_tree, manual               what else goes on the medium
    locks, inputs, bill, medium, sources, proof    the medium, and what is said of it
    compare, publication, updates, release         what becomes of it
    quality, testbed                               the project itself
    dodo, __main__, drawing                        doit, and its commands

ADR 43 says what each room holds. Importing this package does nothing: no git, no globbing, no
daemon.
"""
