"""What Salt's loader does: a module from its file, with what Salt gives it."""

from __future__ import annotations

import importlib.util
import pathlib
import types
from typing import Any

STATES = pathlib.Path(__file__).parents[3] / "salt" / "states"


def load(name: str, **given: Any) -> types.ModuleType:
    """Load a module of the tree.

    :param name: as in ``_states/metalk8s_image``.
    :param given: ``salt``, ``states``, ``opts``, ``grains``, ``env``: what the loader injects.
    """
    file = STATES / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name.replace("/", "."), file)
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    for key, value in {"opts": {"test": False}, "env": "metalk8s-1", **given}.items():
        setattr(module, f"__{key}__", value)
    specification.loader.exec_module(module)
    return module
