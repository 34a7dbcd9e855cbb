"""Images that the container engine must have before there is a registry."""

from __future__ import annotations

from typing import Any


def loaded(name: str, tree: str) -> dict[str, Any]:
    """Let the container engine have the image of a folder.

    :param name: what the image is called there, ``host/path:tag``.
    :param tree: folder of the ISO, ``images/<name>/<version>``.
    """
    wanted = __salt__["metalk8s_images.digest"](tree)
    found = __salt__["metalk8s_images.present"](name)
    if found == wanted:
        return _result(name, True, {}, f"The engine has {name}")
    changes = {"old": found, "new": wanted}
    if __opts__["test"]:
        return _result(name, None, changes, f"{name} would be loaded")
    try:
        __salt__["metalk8s_images.load"](name, tree)
    except (OSError, RuntimeError, ValueError) as error:
        return _result(name, False, {}, str(error))
    return _result(name, True, changes, f"{name} was loaded from {tree}")


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
