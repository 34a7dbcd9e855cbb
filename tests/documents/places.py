"""Where commands of pages are run: a copy of the checkout, and a bare machine with the medium.

Runs ``unshare``, ``mount`` and ``docker``, as root.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.testbed.machine import IMAGE, NODE, SITE, Machine, docker, private_network

HOME = Path(IMAGE).parent
KEY = HOME / "metalk8s.gpg"
# Stands for an editor: gives the example what is this machine's own.
EDITOR = """\
#!/bin/sh
sed -i -e 's#10.50.0.0/24#{network}#' -e '/10.51.0.0/d' -e 's#10.50.0.2#{address}#' "$1"
echo 'site: {site}' >>"$1"
"""
# Everything that is written goes to the scratch folder; a container's root cannot take it.
OVERLAY = """\
mount_copy() {
    mkdir -p "$2/upper" "$2/work" &&
        mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$1"
}
mount_copy "$1" "$2" 2>/dev/null || { mount -t tmpfs tmpfs "$2" && mount_copy "$1" "$2"; } || exit
cd "$1" && exec bash "$3"
"""


def in_copy(root: Path, scratch: Path, script: str, env: dict[str, str]) -> tuple[int, str]:
    """Run a script where the checkout seems to be, in a copy that goes away afterwards.

    :param scratch: an empty folder.
    :return: exit status and output.
    """
    file = scratch / "script"
    file.write_text(script, encoding="utf-8")
    copy = scratch / "copy"
    copy.mkdir()
    argv = ["unshare", "--mount", "sh", "-c", OVERLAY, "sh", str(root), str(copy), str(file)]
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        text=True, start_new_session=True,
    ) as running:  # fmt: skip
        try:
            output, _ = running.communicate()
        finally:
            # What went on in the background ends with the page.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGTERM)
    return running.returncode, output


def on_machine(machine: Machine, script: str) -> tuple[int, str]:
    """Run a script as root on a machine, in root's folder; nothing is mounted at /mnt before."""
    machine.write("/run/page", script)
    machine.call("umount", "/mnt")
    done = machine.call("sh", "-c", f"cd {HOME} && exec bash /run/page")
    return done.returncode, done.stdout + done.stderr


@contextlib.contextmanager
def bare_machine(image: str, medium: Path, key: Path, version: str) -> Iterator[Machine]:
    """Start a machine that nothing was done on, with what came over the air gap in root's folder.

    :param medium: the ISO; its checksum and signature are beside it.
    """
    with private_network() as (network, _):
        brought = {medium: Path(IMAGE), key: KEY}
        brought |= {medium.with_name(n): HOME / n for n in ("SHA256SUM", "SHA256SUM.sig")}
        arguments = (NODE / "run.args").read_text(encoding="utf-8").splitlines()
        name = docker(
            *("run", "--detach", "--hostname=bootstrap", f"--network={network}"),
            *(line for line in arguments if line and not line.startswith("#")),
            *(f"--volume={here}:{there}:ro" for here, there in brought.items()),
            image,
        ).strip()
        try:
            found = json.loads(docker("inspect", name))[0]["NetworkSettings"]["Networks"][network]
            machine = Machine(name, version, found["IPAddress"], network)
            machine.wait_for_systemd()
            subnet = ipaddress.ip_network(f"{machine.address}/{found['IPPrefixLen']}", strict=False)
            machine.shell(f"ip route replace default via {next(subnet.hosts())}")
            editor = EDITOR.format(network=subnet, address=machine.address, site=json.dumps(SITE))
            machine.write("/usr/local/bin/vi", editor)
            machine.shell("chmod 755 /usr/local/bin/vi")
            yield machine
        finally:
            docker("rm", "--force", "--volumes", name)
