"""Pods that the kubelet runs from files, without an API server."""

from __future__ import annotations

import difflib
import hashlib
import os
import pathlib
import shutil
import socket
import time
from typing import Any

import yaml

DIGEST = "metalk8s.scality.com/config-digest"
FILES = "metalk8s.scality.com/config-files"
PAUSE = 0.5  # seconds between two looks at the container engine
TIMEOUT = 120  # seconds in which the kubelet stops what it ran before
ANSWER = 5  # seconds in which the container engine takes a connection


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
    :param source: Jinja template of it; gets ``context``, ``config_digest`` and ``config_files``.
    :param pod: what the pod is called on this node.
    :param config_files: what the pod reads when it starts; all of them are there by now.
    """
    files = config_files or []
    missing = [file for file in files if not pathlib.Path(file).is_file()]
    if missing and not __opts__["test"]:
        return _result(name, False, {}, f"{name} needs {', '.join(missing)}: not there")
    digest = config_digest([file for file in files if file not in missing])
    text = __salt__["slsutil.renderer"](
        path=source,
        default_renderer="jinja",
        saltenv=__env__,
        context={**context, "config_digest": digest, "config_files": files},
    )
    text = text.strip() + "\n"
    path = pathlib.Path(name)
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    if before == text and path.stat().st_mode & 0o777 == 0o600:
        return _result(name, True, {}, f"{name} is up to date")
    changes = {"diff": "".join(difflib.unified_diff(*(t.splitlines(True) for t in (before, text))))}
    if __opts__["test"]:
        return _result(name, None, changes, f"{name} would be written")
    stuck = _replace(path, before, text, pod)
    return _result(name, not stuck, changes, stuck or f"{name} was written")


def absent(name: str, pod: str) -> dict[str, Any]:
    """Let the kubelet not run the pod of a manifest.

    Returns when none of its containers runs: what a pod takes back when it stops is taken back.
    Also without the manifest, as far as there is an engine to ask: a run before may have removed it
    and given up waiting, and what follows takes from the pod what it uses.

    :param name: the file that the kubelet reads.
    :param pod: what the pod is called on this node.
    """
    path = pathlib.Path(name)
    if not path.exists():
        left = set() if __opts__["test"] else _wait_for_end(_remaining(pod), pod)
        stuck = f"{name} is not there, but after {TIMEOUT} s the kubelet still runs {pod}"
        return _result(name, not left, {}, stuck if left else f"{name} is not there")
    changes = {"removed": name}
    if __opts__["test"]:
        return _result(name, None, changes, f"{name} would be removed")
    former = set(__salt__["metalk8s_pods.running"](pod))
    path.unlink()
    left = _wait_for_end(former, pod)
    stuck = f"{name} was removed, but after {TIMEOUT} s the kubelet still runs {pod}"
    return _result(name, not left, changes, stuck if left else f"{name} was removed")


def renewed(name: str, node: str) -> dict[str, Any]:
    """Let the kubelet run every static pod anew that reads other files than it was started with.

    Nothing else of a manifest changes: what its template would say today is for ``managed``.

    :param name: the folder that the kubelet reads.
    :param node: what the node is called.
    """
    changes, failures = {}, []
    for path in sorted(pathlib.Path(name).glob("[!.]*.yaml")):
        before = path.read_text(encoding="utf-8")
        metadata = yaml.safe_load(before)["metadata"]
        annotations = metadata.get("annotations", {})
        if DIGEST not in annotations or FILES not in annotations:
            continue
        files = annotations[FILES].split()
        missing = [file for file in files if not pathlib.Path(file).is_file()]
        if missing:
            failures.append(f"{path} needs {', '.join(missing)}: not there")
            continue
        digest = config_digest(files)
        if digest == annotations[DIGEST]:
            continue
        changes[str(path)] = {"old": annotations[DIGEST], "new": digest}
        if not __opts__["test"]:
            text = before.replace(annotations[DIGEST], digest)
            failures += filter(None, [_replace(path, before, text, f"{metadata['name']}-{node}")])
    if failures:
        return _result(name, False, changes, " ".join(failures))
    if not changes:
        return _result(name, True, {}, "Every static pod reads what it was started with")
    verb = "would be" if __opts__["test"] else "were"
    result = None if __opts__["test"] else True
    return _result(name, result, changes, f"{', '.join(changes)} {verb} written")


def _replace(path: pathlib.Path, before: str, text: str, pod: str) -> str:
    """Write a manifest and wait until the former pod is gone; say why it is not."""
    former = set(__salt__["metalk8s_pods.running"](pod)) if before not in ("", text) else set()
    write(path, text)
    if _wait_for_end(former, pod):
        return f"{path} was written, but after {TIMEOUT} s the kubelet still runs the old {pod}"
    return ""


def _remaining(pod: str) -> set[str]:
    """Name the containers of a pod without a manifest; none where no engine is there to ask."""
    if not shutil.which("ctr"):
        return set()
    try:
        # ctr itself waits for ten seconds for a socket that is not there.
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER)
            connection.connect(__salt__["metalk8s_engine.socket"]())
    except OSError:
        return set()
    return set(__salt__["metalk8s_pods.running"](pod))


def _wait_for_end(containers: set[str], pod: str) -> set[str]:
    """Wait until none of some containers of a pod runs; name those that still do."""
    until = time.monotonic() + TIMEOUT
    left = containers
    while left and (left := containers.intersection(__salt__["metalk8s_pods.running"](pod))):
        if time.monotonic() > until:
            break
        time.sleep(PAUSE)
    return left


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
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700)
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        os.fchmod(stream.fileno(), 0o600)  # whatever the umask
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
