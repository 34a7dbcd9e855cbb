"""The ISO on this machine: which image its place shows, and what other machines need to have it.

A machine that bootstrap.sh set up has the image wherever its operator put it, others in a folder of
ours. A unit of systemd mounts it: the same one as bootstrap.sh writes (``mounting.py`` there).
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from typing import Any

UNITS = pathlib.Path("/etc/systemd/system")
MOUNTS = "/srv/scality"
# bootstrap.sh leaves there how it verified the medium: scripts and keys.
VERIFICATION = pathlib.Path("/var/lib/metalk8s/verification")
VERIFIER = re.compile(r"[a-z0-9]+\.(sh|asc)")
DIGESTS = pathlib.Path("/var/lib/metalk8s/archives/digests.json")
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+~-]{0,63}")
PATIENCE = 600  # seconds in which a slow disk has read the image


def unit_name(place: str) -> str:
    """Give the name of the unit that mounts something at a path (systemd.unit(5))."""
    name = re.sub(
        r"[^a-zA-Z0-9:_./]",
        lambda found: "".join(f"\\x{byte:02x}" for byte in found[0].encode()),
        place.strip("/"),
    )
    return f"{name.replace('/', '-')}.mount"


def unit(header: str, image: str, place: str, version: str) -> str:
    """Give the text of that unit."""
    return f"""# {header}
[Unit]
Description=Medium of MetalK8s {version}

[Mount]
What={image.replace("%", "%%")}
Where={place}
Type=iso9660
Options=loop,ro,nosuid,nodev

[Install]
WantedBy=local-fs.target
"""


def image(place: str) -> str:
    """Give the image that is mounted at a place at each boot; nothing when it is another thing."""
    path = UNITS / unit_name(place)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.search(r"^What=(/.*)$", text, re.MULTILINE)
    name = found[1].replace("%%", "%") if found else ""
    return name if name and pathlib.Path(name).is_file() else ""


def offered(version: str, **_publication: Any) -> dict[str, Any]:
    """Say what a machine needs to have this one's image of a version; none of it is a secret.

    :return: ``size`` in bytes, ``sha256``, and ``verifier``: text of each file by its name; or
        ``refused``, a sentence.
    """
    if not isinstance(version, str) or not VERSION.fullmatch(version):
        return {"refused": f"{str(version)[:60]!r} is no version"}
    place = f"{MOUNTS}/metalk8s-{version}"
    path = image(place)
    if not path:
        return {
            "refused": f"The bootstrap machine has no image of the ISO for {place}. Copy the image "
            "there, name it in `archives` of its /etc/metalk8s/bootstrap.yaml and run bootstrap.sh"
        }
    verifier = {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted(VERIFICATION.glob("*"))
        if VERIFIER.fullmatch(file.name) and file.is_file()
    }
    return {
        "size": pathlib.Path(path).stat().st_size,
        "sha256": _digest(path),
        "verifier": verifier,
    }


def asked(machine: str, version: str) -> dict[str, Any]:
    """Ask a machine through the Salt master what it offers.

    :raises RuntimeError: it does not answer, or refuses; the text is a sentence.
    """
    answers = __salt__["publish.publish"](
        machine, "metalk8s_archive.offered", [version], timeout=PATIENCE
    )
    answer = (answers or {}).get(machine) if isinstance(answers, dict) else None
    if not isinstance(answer, dict):
        said = f": {answer or answers}" if answer or answers else " through the Salt master"
        raise RuntimeError(f"{machine} did not say what its ISO is{said}")
    if "refused" in answer:
        raise RuntimeError(str(answer["refused"]))
    strange = [name for name in answer["verifier"] if not VERIFIER.fullmatch(name)]
    if strange:
        raise RuntimeError(f"{machine} names {', '.join(strange)}, expected names like medium.sh")
    return answer


def is_mounted(place: str) -> bool:
    """Tell whether something is mounted at a place, now and at each boot."""
    argv = ["systemctl", "is-enabled", "--quiet", unit_name(place)]
    return pathlib.Path(place).is_mount() and not subprocess.run(argv, check=False).returncode


def mount(place: str, text: str, verifier: str) -> None:
    """Mount a medium at its place, now and at each boot, if what it shows is to be trusted.

    :param text: of the unit.
    :param verifier: script that verifies the folder that it is given.
    :raises RuntimeError: systemd cannot mount it, or it is not what was signed: then it is neither
        mounted nor will it be.
    """
    name = unit_name(place)
    write(str(UNITS / name), text)
    _run("systemctl", "daemon-reload")
    try:
        _run("systemctl", "start", name)
        _run("sh", verifier, place)
    except RuntimeError:
        unmount(place)
        raise
    _run("systemctl", "enable", "--quiet", name)


def unmount(place: str) -> None:
    """Let nothing be mounted at a place, and take the unit away.

    :raises RuntimeError: somebody still uses it.
    """
    name = unit_name(place)
    _run("systemctl", "disable", "--quiet", "--now", name)
    (UNITS / name).unlink(missing_ok=True)
    _run("systemctl", "daemon-reload")


def write(path: str, text: str) -> None:
    """Write a file whole, for everybody to read, and the folders that it is in."""
    target = pathlib.Path(path)
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.new")
    with beside.open("w", encoding="utf-8") as stream:
        os.fchmod(stream.fileno(), 0o644)  # whatever the umask
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(target)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise RuntimeError(f"{' '.join(argv)} failed: {said}")


def _digest(path: str) -> str:
    """Give the SHA-256 of a file, which is read again only when it changed."""
    status = pathlib.Path(path).stat()
    # Nobody can set the time of a change back.
    facts = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    known = _known()
    if known.get(path, {}).get("facts") != facts:
        known[path] = {"facts": facts, "sha256": __salt__["metalk8s_transfer.digest"](path)}
        write(str(DIGESTS), json.dumps(known, indent=1, sort_keys=True) + "\n")
    return str(known[path]["sha256"])


def _known() -> dict[str, dict[str, Any]]:
    try:
        known = json.loads(DIGESTS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
