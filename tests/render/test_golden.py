"""The merged map, the states of each role and the files they write, as text to review.

``METALK8S_UPDATE_GOLDEN=1`` rewrites ``golden/``; the change is then read in the diff.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any

import pytest

from .conftest import PLATFORMS, VARIANT
from .test_tree import ROLES, files_of

pytestmark = pytest.mark.render

GOLDEN = pathlib.Path(__file__).parent / "golden"


def golden_of(rendered: dict[str, Any], platform: str) -> dict[str, str]:
    """Give the golden files of a platform: path → text."""
    machine = rendered[platform]
    texts = {"map.json": json.dumps(machine["map"], indent=2, sort_keys=True) + "\n"}
    for sls in (f"metalk8s.roles.{role}{suffix}" for role in ROLES for suffix in ("", ".absent")):
        lines = [
            f"{state['function']:<18} {state['id']}\n" for state in machine["sls"][sls]["states"]
        ]
        texts[f"{sls}.txt"] = "".join(lines)
    return texts | {f"files{path}": text for path, text in files_of(rendered, platform).items()}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_golden(rendered: dict[str, Any], platform: str) -> None:
    """What Salt makes of the tree is what was reviewed."""
    compare(golden_of(rendered, platform), GOLDEN / platform)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_golden_with_keepalived(rendered: dict[str, Any], platform: str) -> None:
    """Only what is another than without is kept."""
    without, found = (golden_of(rendered, name) for name in (platform, f"{platform}{VARIANT}"))
    assert not without.keys() - found.keys()
    others = {name: text for name, text in found.items() if without.get(name) != text}
    compare(others, GOLDEN / f"{platform}{VARIANT}")


def compare(texts: dict[str, str], folder: pathlib.Path) -> None:
    """Compare texts with those of a folder, or write them there."""
    if os.environ.get("METALK8S_UPDATE_GOLDEN"):
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    kept = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert texts == kept
