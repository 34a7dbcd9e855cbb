"""What the states know, made once for all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .loader import load

MAP = {"version": "1", "order": {"b": 1, "a": 2}}


class Renderer:
    """Salt's, which counts how often it is asked and shows what it reads."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def __call__(self, **arguments: Any) -> str:
        self.asked.append(arguments)
        return f"\n{json.dumps(MAP)}\n"


def loaded(renderer: Renderer) -> Any:
    return load(
        "_modules/metalk8s_map",
        salt={"slsutil.renderer": renderer},
        context={},
        pillar={"metalk8s": {"site": {}}},
        grains={"id": "node"},
    )


def test_it_is_rendered_once_for_all() -> None:
    """It is the map of the environment that asks."""
    renderer = Renderer()
    module = loaded(renderer)
    assert [module.known("metalk8s-1") for _ in range(3)] == [MAP] * 3
    assert list(module.known("metalk8s-1")["order"]) == ["b", "a"]
    assert renderer.asked == [
        {
            "path": "salt://metalk8s/map.jinja",
            "default_renderer": "jinja",
            "saltenv": "metalk8s-1",
        }
    ]


def test_everybody_has_their_own() -> None:
    """What one state file does to it, the next one does not see."""
    module = loaded(Renderer())
    module.known("metalk8s-1")["order"].clear()
    assert module.known("metalk8s-1") == MAP


@pytest.mark.parametrize(
    ("name", "value"),
    [("__pillar__", {"metalk8s": {"site": {"kubelet": {}}}}), ("__grains__", {"id": "other"})],
)
def test_what_it_is_made_of_changes(name: str, value: dict[str, Any]) -> None:
    """A pillar that was refreshed, a machine with another address: it is made anew."""
    renderer = Renderer()
    module = loaded(renderer)
    module.known("metalk8s-1")
    setattr(module, name, value)
    module.known("metalk8s-1")
    module.known("metalk8s-1")
    assert len(renderer.asked) == 2


def test_environments_do_not_share() -> None:
    """Two versions on one machine have two maps."""
    renderer = Renderer()
    module = loaded(renderer)
    for saltenv in ("metalk8s-1", "metalk8s-2"):
        module.known(saltenv)
    assert [one["saltenv"] for one in renderer.asked] == ["metalk8s-1", "metalk8s-2"]
