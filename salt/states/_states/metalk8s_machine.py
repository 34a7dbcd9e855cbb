"""The agent that applies states leaves the machine itself, after it has said how that went.

Runs ``systemd-run``: what stops a service of systemd ends whatever the service has started.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
from typing import Any

PATIENCE = 120  # seconds that the run gets to end
REMOVAL = {
    "debian": ("apt-get", "--yes", "purge"),
    "redhat": ("dnf", "--assumeyes", "--disablerepo=*", "remove"),
}
# Arguments: the process of the run, seconds, service, folders (one word), files (one word), and
# how to remove the packages. Each step is tried, whatever became of those before it.
SCRIPT = """
timeout "$2" tail --pid="$1" -f /dev/null
systemctl disable --now "$3"
folders=$4 files=$5
shift 5
"$@"
rm -rf -- $files
for folder in $folders; do
    if [ -d "$folder" ]; then find "$folder" -depth -type d -empty -delete; fi
done
"""


def minion_leaves(
    name: str, packages: list[str], os_family: str, files: list[str], folders: list[str]
) -> dict[str, Any]:
    """Let a minion leave the machine once this run is over: its process has answered by then.

    :param name: its service.
    :param packages: that bring it; their versions are not held any more.
    :param files: and folders of its own; none has blanks in its name.
    :param folders: that go if nothing is left in them.
    """
    unit = f"metalk8s-{name}-leaves"
    there = [file for file in files if pathlib.Path(file).exists()]
    if not there:
        return _result(name, True, {}, f"There is nothing of {name}")
    if subprocess.run(["systemctl", "is-active", "--quiet", unit], check=False).returncode == 0:
        return _result(name, True, {}, f"{name} is about to leave")
    changes = {"leaves": [name, *there]}
    if __opts__["test"]:
        return _result(name, None, changes, f"{name} would leave the machine after this run")
    argv = ["systemd-run", "--quiet", "--collect", f"--unit={unit}"]
    argv += command(name, packages, os_family, files, folders)
    run = subprocess.run(argv, capture_output=True, text=True, check=False)
    if run.returncode:
        return _result(name, False, {}, f"{name} cannot leave: {run.stderr.strip()}")
    comment = f"{name} leaves the machine after this run: journalctl --unit={unit}"
    return _result(name, True, changes, comment)


def command(
    name: str, packages: list[str], os_family: str, files: list[str], folders: list[str]
) -> list[str]:
    """Give the program that waits for the end of this process, and then removes all of it."""
    return [
        *("/bin/sh", "-c", SCRIPT, "leave", str(os.getpid()), str(PATIENCE), name),
        *(" ".join(folders), " ".join(files), *REMOVAL[os_family], *packages),
    ]


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
