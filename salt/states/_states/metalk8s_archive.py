"""The ISO on a machine that did not bring it: fetched from another one, verified and mounted."""

from __future__ import annotations

import pathlib
import stat
from typing import Any


def fetched(
    name: str, version: str, machine: str, urls: list[str], authority: str, verifier: str
) -> dict[str, Any]:
    """Have the image of an ISO, as a machine that is trusted describes it.

    The image gets its name when it is whole and verified: one that has it is not looked at again.

    :param name: the file.
    :param version: of the medium.
    :param machine: minion that says through the Salt master what the image is, and how to verify
        what it shows.
    :param urls: where the image is served, in the order to ask.
    :param authority: certificate of the CA that signed those of the servers.
    :param verifier: script that verifies a medium; what it needs comes into its folder, too.
    """
    if pathlib.Path(name).is_file() and pathlib.Path(verifier).is_file():
        return _result(name, True, {}, f"{name} is there")
    changes = {"fetched": name}
    if __opts__["test"]:
        return _result(name, None, changes, f"{name} would be fetched")
    folder = pathlib.Path(verifier).parent
    try:
        offer = __salt__["metalk8s_archive.asked"](machine, version)
        if pathlib.Path(verifier).name not in offer["verifier"]:
            return _result(name, False, {}, f"{machine} does not say how to verify the medium")
        if not pathlib.Path(name).is_file():
            url = __salt__["metalk8s_transfer.fetch"](
                name, offer["size"], offer["sha256"], urls, authority
            )
            changes["from"] = url
        # The script comes last: whoever finds it finds what it needs.
        for file in sorted(offer["verifier"], key=pathlib.Path(verifier).name.__eq__):
            __salt__["metalk8s_archive.write"](str(folder / file), offer["verifier"][file])
    except (OSError, RuntimeError) as error:
        return _result(name, False, {}, str(error))
    return _result(name, True, changes, f"{name} was fetched and verified")


def mounted(name: str, image: str, version: str, header: str, verifier: str) -> dict[str, Any]:
    """Mount a medium at its place, now and at each boot, if it is what was signed.

    :param name: the place.
    :param image: the ISO.
    :param header: first line of the unit, without the sign of a comment.
    :param verifier: script that verifies the folder that it is given.
    """
    archive = {part: __salt__[f"metalk8s_archive.{part}"] for part in ("unit", "image", "mount")}
    if archive["image"](name) == image and __salt__["metalk8s_archive.is_mounted"](name):
        return _result(name, True, {}, f"{image} is mounted at {name}")
    changes = {"mounted": image}
    if __opts__["test"]:
        return _result(name, None, changes, f"{image} would be mounted at {name}")
    try:
        archive["mount"](name, archive["unit"](header, image, name, version), verifier)
    except (OSError, RuntimeError) as error:
        return _result(name, False, {}, str(error))
    return _result(name, True, changes, f"{image} was mounted at {name}")


def readable(name: str) -> dict[str, Any]:
    """Let everybody read an image, so that the repositories can serve it: it has no secrets.

    :param name: the file.
    """
    path = pathlib.Path(name)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & stat.S_IROTH:
        return _result(name, True, {}, f"Everybody may read {name}")
    changes = {"mode": {"old": f"{mode:04o}", "new": f"{mode | stat.S_IROTH:04o}"}}
    if __opts__["test"]:
        return _result(name, None, changes, f"Everybody would be let read {name}")
    try:
        path.chmod(mode | stat.S_IROTH)
    except OSError as error:
        # This machine needs it no more than before; who cannot fetch it is told then.
        answer = _result(name, True, {}, f"Other machines cannot fetch {name}")
        return {**answer, "warnings": [f"{name} cannot be made readable: {error.strerror}"]}
    return _result(name, True, changes, f"Everybody may read {name}")


def absent(name: str, image: str) -> dict[str, Any]:
    """Unmount a medium and remove its image, with what came of it.

    :param name: the place.
    :param image: the file; another one that is mounted there stays.
    """
    path = pathlib.Path(image)
    files = [file for file in (path, path.with_name(f".{path.name}.partial")) if file.exists()]
    is_ours = __salt__["metalk8s_archive.image"](name) == image
    changes = {"removed": [str(file) for file in files], "unmounted": name if is_ours else ""}
    if not files:
        return _result(name, True, {}, f"{image} is not there")
    if __opts__["test"]:
        return _result(name, None, changes, f"{image} would be removed")
    try:
        if is_ours:
            __salt__["metalk8s_archive.unmount"](name)
        for file in files:
            file.unlink()
    except (OSError, RuntimeError) as error:
        return _result(name, False, {}, str(error))
    return _result(name, True, changes, f"{image} was removed")


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
