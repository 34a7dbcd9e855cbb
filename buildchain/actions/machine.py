"""Programs of this machine: where they are, and what makes them run as root."""

from __future__ import annotations

import os
import shutil

from buildchain.errors import BuildError

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
