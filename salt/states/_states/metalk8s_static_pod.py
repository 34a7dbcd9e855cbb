"""Pods that the kubelet runs from files, without an API server."""

from __future__ import annotations

import difflib
import hashlib
import os
import pathlib
import time
from typing import Any

PAUSE = 0.5  # seconds between two looks at the container engine
TIMEOUT = 120  # seconds in which the kubelet stops what it ran before


def managed(
    name: str,
    source: str,
    pod: str,
    context: dict[str, Any],
    config_files: list[str] | None = None,
) -> dict[str, Any]:
    """Let the kubelet run the pod of a manifest, and run it anew when its configuration changes.

    Returns when none of its former containers runs: whoever then asks the pod asks the new one.

    ``file.managed`` is no way: it writes beside the file, where the kubelet sees a second pod, and
    renders without a look at what the pod reads.

    :param name: the file that the kubelet reads.
    :param source: Jinja template of it; gets ``context`` and ``config_digest``.
    :param pod: what the pod is called on this node.
    :param config_files: what the pod reads when it starts; all of them are there by now.
    """
    missing = [file for file in config_files or [] if not pathlib.Path(file).is_file()]
    if missing and not __opts__["test"]:
        return _result(name, False, {}, f"{name} needs {', '.join(missing)}: not there")
    digest = config_digest([file for file in config_files or [] if file not in missing])
    text = __salt__["slsutil.renderer"](
        path=source,
        default_renderer="jinja",
        saltenv=__env__,
        context={**context, "config_digest": digest},
    )
    text = text.strip() + "\n"
    path = pathlib.Path(name)
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    if before == text and path.stat().st_mode & 0o777 == 0o600:
        return _result(name, True, {}, f"{name} is up to date")
    changes = {"diff": "".join(difflib.unified_diff(*(t.splitlines(True) for t in (before, text))))}
    if __opts__["test"]:
        return _result(name, None, changes, f"{name} would be written")
    former = set(__salt__["metalk8s_pods.running"](pod)) if before not in ("", text) else set()
    write(path, text)
    until = time.monotonic() + TIMEOUT
    while former and former.intersection(__salt__["metalk8s_pods.running"](pod)):
        if time.monotonic() > until:
            comment = (
                f"{name} was written, but after {TIMEOUT} s the kubelet still runs the old {pod}"
            )
            return _result(name, False, changes, comment)
        time.sleep(PAUSE)
    return _result(name, True, changes, f"{name} was written")


def config_digest(files: list[str]) -> str:
    """Make one digest of files: of their names and of what they hold."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(
            f"{file}\0{hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()}\n".encode()
        )
    return digest.hexdigest()


def write(path: pathlib.Path, text: str) -> None:
    """Write a manifest whole; the kubelet overlooks names that begin with a dot."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
