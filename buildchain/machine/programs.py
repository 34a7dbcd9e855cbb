"""Programs of this machine: where they are, and what makes them run as root."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence

from buildchain.core.errors import BuildError

VERSION = re.compile(r"(\d+(?:\.\d+)+)")
ARGV_FOR_STATES = ("dpkg-query", "--show", "--showformat", "${Package}\t${db:Status-Status}\n")
INSTALLED = "installed"
# States of packages whose installation did not come to its end (dpkg(1)).
UNFINISHED = (
    "half-installed",
    "unpacked",
    "half-configured",
    "triggers-awaited",
    "triggers-pending",
)

# dockerd and friends live there, where ordinary users do not search.
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin")


def find(command: str) -> str:
    """Return the path of a command, or an empty string."""
    folders = [os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS]
    return shutil.which(command, path=os.pathsep.join(folders)) or ""


def root_prefix() -> list[str]:
    """Return what makes a command run as root.

    :raises BuildError: neither root nor sudo.
    """
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        return ["sudo", "-n"] if not os.isatty(0) else ["sudo"]
    raise BuildError(
        "installing packages and starting the Docker engine need root, and there is no sudo",
        solution="Run ./doit.sh setup as root once; everything else runs without.",
    )


def parse_version(text: str) -> tuple[int, ...]:
    """Return the first dotted number of a text, empty when there is none."""
    match = VERSION.search(text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def is_older(actual: str, minimum: str) -> bool:
    """Tell whether the version in ``actual`` is below ``minimum``; unknown is not older."""
    found = parse_version(actual)
    return bool(found) and found < tuple(int(part) for part in minimum.split("."))


def parse_states(listing: str) -> dict[str, str]:
    """Return the state of each package in a listing, the worst where it is there for several."""
    states: dict[str, str] = {}
    for line in listing.splitlines():
        name, separator, state = line.partition("\t")
        if separator and states.get(name) not in UNFINISHED:
            states[name] = state
    return states


def argv_for_configuration(prefix: Sequence[str]) -> list[str]:
    """Configure every package that was unpacked and not configured."""
    return [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--configure", "--pending"]


def argv_for_refresh(prefix: Sequence[str]) -> list[str]:
    """Read the package indexes again."""
    return [*prefix, "apt-get", "-q", "update"]


def argv_for_installation(prefix: Sequence[str], packages: Sequence[str]) -> list[str]:
    """Install packages, nothing beyond what they need; what is there and broken once more."""
    # What is in the way (another vendor's Docker, say) is the user's: APT may not remove it.
    # env, because sudo drops the environment. A new machine may be updating itself: wait for it.
    options = ["-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=300"]
    return [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", *options,
            "--no-install-recommends", "--no-remove", "install", "--reinstall",
            *packages]  # fmt: skip
