"""What the states know: ``metalk8s/map.jinja``, rendered once for all state files of a run."""

from __future__ import annotations

import json
from typing import Any

SOURCE = "salt://metalk8s/map.jinja"
KEPT = "metalk8s_map"


def known(saltenv: str) -> dict[str, Any]:
    """Give the value that ``map.jinja`` makes of parameters, versions, grains and pillar.

    Every state file asks for it, and to make it takes longer than to render all of them: it is kept
    until what it is made of changes.

    :param saltenv: the environment of who asks; its map is read.
    """
    made_of = (saltenv, dict(__pillar__), dict(__grains__))
    before, text = __context__.get(KEPT, (None, ""))
    if before != made_of:
        text = __salt__["slsutil.renderer"](path=SOURCE, default_renderer="jinja", saltenv=saltenv)
        __context__[KEPT] = (made_of, text)
    # Everybody gets a value of their own, to change as they like.
    value: dict[str, Any] = json.loads(text)
    return value
