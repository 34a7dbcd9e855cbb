"""How rendered states are read, beside what YAML says of them."""

import json

import pytest

from buildchain.proof import salt_jinja, states

MAP = json.dumps({"metalk8s": {"a": [1, "x: y", None]}, "no": "yes"})
NUMBER = "s:\n  f.a:\n    - context:\n        metalk8s: 9\n"


@pytest.mark.parametrize(
    ("text", "is_aside"),
    [
        (f"s:\n  file.managed:\n    - context:\n        metalk8s: {MAP}\n", True),
        (f"s:\n  f.a:\n    - context:\n        metalk8s: {MAP}\n        more: 0\n" * 2, False),
        (f"a:\n  f.b:\n    - context:\n        metalk8s: {MAP}\nb:\n  f.c: []\n", True),
        # As the text of a file, in another argument, of no state, and what JSON does not know.
        (f"s:\n  file.managed:\n    - contents: |\n        metalk8s: {MAP}\n", False),
        (f"s:\n  f.a:\n    - pillar:\n        metalk8s: {MAP}\n", False),
        (f"include:\n  - context:\n      metalk8s: {MAP}\n", False),
        ("s:\n  f.a:\n    - context:\n        metalk8s: {a: b}\n", False),
        ("s:\n  f.a:\n    - context:\n        metalk8s: 0\n", False),
        (f"{NUMBER}t:\n  f.a:\n    - context:\n        metalk8s: {MAP}\n", True),
        ("- 1\n", False),
        ("", False),
    ],
)
def test_maps_come_out_as_from_yaml(text, is_aside, monkeypatch):
    read = []
    real = salt_jinja.read_yaml
    monkeypatch.setattr(salt_jinja, "read_yaml", lambda one: read.append(one) or real(one))
    states._document.cache_clear()
    assert states._document(text) == real(text)
    assert (MAP not in read[-1] and MAP in text) == is_aside
