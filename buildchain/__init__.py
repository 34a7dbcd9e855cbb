"""The MetalK8s build chain: pinned inputs in, one signed ISO out.

Imports point one way (``tests/unit/test_imports.py`` proves it)::

    dodo -> rooms' steps -> tasks -> rooms, targets -> actions, signatures
         -> tools, store -> process -> events, model, catalog, layout, config, errors

A room is a folder for a subject: ``manual``, ``publication``, ``release``, ``signatures``,
``updates``. Its ``steps.py`` is its part of the graph.

Importing this package does nothing: no git, no globbing, no daemon.
"""
