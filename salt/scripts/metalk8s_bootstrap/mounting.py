"""Archives at their places: mounted by a unit, which stays only if what it shows was verified."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from metalk8s_bootstrap import folders
from metalk8s_bootstrap.machine import Machine
from metalk8s_bootstrap.system import System

UNITS = "/etc/systemd/system"
OPTIONS = "loop,ro,nosuid,nodev"
# Where an archive is looked at whose place is taken by another mount.
APART = "/run/metalk8s/archive"


def unit_name(path: str) -> str:
    """Return the name of the unit that mounts something at a path (systemd.unit(5))."""
    name = path.strip("/")
    escaped = re.sub(
        r"[^a-zA-Z0-9:_./]", lambda m: "".join(f"\\x{b:02x}" for b in m[0].encode()), name
    )
    return f"{escaped.replace('/', '-')}.mount"


def unit(generated: str, image: str, place: str, version: str) -> str:
    """Return the text of that unit.

    :param generated: first line.
    """
    return f"""{generated}[Unit]
Description=Medium of MetalK8s {version}

[Mount]
What={image.replace("%", "%%")}
Where={place}
Type=iso9660
Options={OPTIONS}

[Install]
WantedBy=local-fs.target
"""


def mount(system: System, place: str, text: str, verify: Callable[[], None]) -> None:
    """Mount an archive at its place, now and whenever the machine boots.

    :param verify: raises an exception when what is mounted is not to be trusted: then it is
        neither mounted nor enabled afterwards.
    :raises StepError: systemd cannot mount it.
    """
    name = unit_name(place)
    folders.make(system.path(place))
    if system.write(f"{UNITS}/{name}", text):
        _systemctl(system, "daemon-reload")
    try:
        _systemctl(system, "start", name)
        verify()
    except BaseException:
        system.run(
            ["systemctl", "disable", "--quiet", "--now", name],
            sentence=f"{place} cannot be unmounted",
            statuses=range(256),
        )
        system.path(f"{UNITS}/{name}").unlink(missing_ok=True)
        _systemctl(system, "daemon-reload")
        raise
    _systemctl(system, "enable", "--quiet", name)


def _systemctl(system: System, *words: str) -> None:
    system.run(["systemctl", *words], sentence=f"systemctl {' '.join(words)} failed")


def shows(machine: Machine, place: str, image: str) -> bool:
    """Tell whether what is mounted at a place is an image of the machine's."""
    mounts = [found for found in machine.mounts if found.point == place]
    if not mounts:
        return False
    device = Path(mounts[-1].source).name
    backing = machine.text(f"sys/block/{device}/loop/backing_file").rstrip("\n")
    found, wanted = (machine.root / path.lstrip("/") for path in (backing, image))
    return bool(backing) and found.is_file() and found.samefile(wanted)


def apart(system: System, image: str, verify: Callable[[Path], None]) -> None:
    """Mount an archive beside its place for as long as it takes to verify it.

    :raises StepError: it cannot be mounted.
    """
    folder = system.path(APART)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = ["mount", "-t", "iso9660", "-o", OPTIONS, str(system.path(image)), str(folder)]
    system.run(argv, sentence=f"{image} cannot be mounted")
    try:
        verify(folder)
    finally:
        system.run(["umount", str(folder)], sentence=f"{folder} cannot be unmounted")
