"""The MetalK8s build chain: pinned inputs in, one signed ISO out.

Imports point one way (``tests/unit/test_imports.py`` proves it)::

    dodo -> publication -> tasks -> targets -> actions -> tools, store -> process
                                             -> events, model, catalog, layout, config, errors

Importing this package does nothing: no git, no globbing, no daemon.
"""
