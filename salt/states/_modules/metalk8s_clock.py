"""Who keeps this machine's clock, and how that goes.

Programs: ``systemctl``, ``chronyc``, ``timedatectl``. Changes nothing.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
from typing import Any

ROOT = "/"
CHRONY = "chrony"  # on EL, chronyd
# Nobody has these by accident.
CHOSEN = ("ntpsec", "ntp", "ntpd", "openntpd")
# What distributions bring by themselves, with servers of their own vendor. The unit, and which
# files say whom it asks.
CHRONY_FILES = (
    *("etc/chrony.conf", "etc/chrony/chrony.conf", "etc/chrony.d/*.conf"),
    *("etc/chrony/conf.d/*.conf", "etc/chrony/sources.d/*.sources", "run/chrony-dhcp/*.sources"),
)
DEFAULTS = {
    "chrony": CHRONY_FILES,
    "chronyd": CHRONY_FILES,
    "systemd-timesyncd": (
        *("etc/systemd/timesyncd.conf", "etc/systemd/timesyncd.conf.d/*.conf"),
        "run/systemd/timesyncd.conf.d/*.conf",
    ),
}
SERVERS = re.compile(r"^[ \t]*(?:NTP[ \t]*=|(?:server|pool|peer|refclock)[ \t])[ \t]*(\S.*)$", re.M)
VENDORS = ".pool.ntp.org"
# What makes chrony ours, wherever a family has its units.
DROP_INS = "etc/systemd/system/chrony*.service.d/50-metalk8s.conf"
# systemd writes it when it is the first process of a container.
CONTAINER = "run/systemd/container"
# timesyncd writes it when a server has answered since the machine was started.
ANSWERED = "run/systemd/timesync/synchronized"
CAPABILITIES, SYS_TIME = "proc/1/status", 25
TIME = 10  # seconds that a program has to answer


def others(drop_in: str, record: str, is_asked: bool) -> list[str]:
    """Name the unit that keeps this machine's clock in place of ours; none where ours is to.

    It does when somebody chose or configured it; and, unless ours is asked for, when it works or
    was left alone before.

    :param drop_in: for the unit of chrony; where it is, ours was chosen once and for all.
    :param record: of a service that was left alone.
    :param is_asked: whether the site named servers for ours.
    """
    if pathlib.Path(drop_in).exists():
        return []
    before = _text(record).splitlines()[-1:]
    for unit in (*CHOSEN, *DEFAULTS):
        if not (_succeeds("is-enabled", unit) or _succeeds("is-active", unit)):
            continue
        if unit in CHOSEN or _has_servers(unit):
            return [unit]
        if not is_asked and ([unit] == before or _has_answers(unit)):
            return [unit]
    return []


def is_free() -> bool:
    """Say whether the clock is this machine's to set: a container's is that of its host."""
    if pathlib.Path(ROOT, CONTAINER).exists():
        return False
    bounds = re.search(r"(?m)^CapBnd:\s*([0-9a-f]+)$", _text(pathlib.Path(ROOT, CAPABILITIES)))
    return not bounds or bool(int(bounds[1], 16) >> SYS_TIME & 1)


def status() -> dict[str, Any]:
    """Say how the clock is kept, whoever does it.

    :return: ``keeper``, the unit that runs, empty where none does; ``is_ours``; ``is_free``, as
        above; ``synchronised``, nothing where nobody says; and where chrony answers, ``stratum``,
        ``sources`` and ``preferred`` (those of them that are the site's).
    """
    unit = next((name for name in (*CHOSEN, *DEFAULTS) if _succeeds("is-active", name)), "")
    found = {
        "keeper": unit,
        "is_ours": any(pathlib.Path(ROOT).glob(DROP_INS)),
        "is_free": is_free(),
        "synchronised": None,
    }
    if unit.startswith(CHRONY):
        tracking = _tracking()
        more = {"sources": sources(), "preferred": _preferred()} if tracking else {}
        return {**found, **tracking, **more}
    said = _printed("timedatectl", "show", "--property=NTPSynchronized", "--value").strip()
    synchronised = {"yes": True, "no": False}.get(said) if unit else None
    return {**found, "synchronised": synchronised}


def _tracking() -> dict[str, Any]:
    """Read fields 3 and 14 of what chrony says of itself; nothing when it says nothing."""
    rows = _fields(_printed("chronyc", "-n", "-c", "tracking"))
    if not rows or len(rows[0]) < 14:
        return {}
    return {"stratum": int(rows[0][2]), "synchronised": rows[0][13] != "Not synchronised"}


def sources() -> dict[str, bool]:
    """List whom chrony asks, and whether each has answered of late."""
    rows = _fields(_printed("chronyc", "-n", "-c", "sources"))
    # Field 6 is a register of the last eight attempts, in octal.
    return {row[2]: int(row[5], 8) > 0 for row in rows if len(row) > 5}


def _preferred() -> list[str]:
    """List whom our configuration has chrony prefer: field 5 says so."""
    rows = _fields(_printed("chronyc", "-n", "-c", "selectdata"))
    return [row[1] for row in rows if row[4:5] == ["P"]]


def _fields(text: str) -> list[list[str]]:
    return [line.split(",") for line in text.splitlines()]


def _has_servers(unit: str) -> bool:
    """Say whether somebody named servers, besides who made the distribution."""
    files = [file for name in DEFAULTS[unit] for file in pathlib.Path(ROOT).glob(name)]
    named = [found for file in files for found in SERVERS.findall(_text(file))]
    words = [word for text in named for word in text.split()[:1]]
    return any(not word.rstrip(".").endswith(VENDORS) for word in words)


def _has_answers(unit: str) -> bool:
    if not unit.startswith(CHRONY):
        return pathlib.Path(ROOT, ANSWERED).exists()
    return bool(_tracking().get("synchronised"))


def _text(path: str | pathlib.Path) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _succeeds(verb: str, unit: str) -> bool:
    return _run("systemctl", "--quiet", verb, f"{unit}.service").returncode == 0


def _printed(*argv: str) -> str:
    run = _run(*argv)
    return "" if run.returncode else run.stdout


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=TIME)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 127, "", str(error))
