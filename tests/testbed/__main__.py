"""A virtual machine by hand: ``python -m tests.testbed start|ssh|console|stop [VARIANT]``.

It outlives the command that started it; its files are in ``_build/machine``. The ISO is plugged in
as ``/dev/vdb``, its public key lies in ``/root``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
import tty

from tests.testbed import disk
from tests.testbed.disk import Disk, DiskError
from tests.testbed.virtual import VirtualMachine

BUILD = pathlib.Path(os.environ.get("METALK8S_BUILD_ROOT", "_build"))
FOLDER = BUILD / "machine"
LEAVE = b"\x1d"  # Ctrl-]
PATIENCE = 60  # seconds that a machine has to end by itself


def main() -> int:
    """Do what the command line says; 1 with one line on what is wrong."""
    parser = argparse.ArgumentParser(prog="./doit.sh machine", description=__doc__)
    parser.add_argument("action", choices=("start", "ssh", "console", "stop"))
    parser.add_argument("variant", nargs="?", default="minbase", choices=sorted(disk.variants()))
    arguments = parser.parse_args()
    actions = {"start": start, "ssh": ssh, "console": console, "stop": stop}
    try:
        return actions[arguments.action](arguments.variant)
    except DiskError as error:
        print(f"machine: error: {error}", file=sys.stderr)
        return 1


def start(variant: str) -> int:
    """Start a machine with a new disk."""
    if _pid():
        raise DiskError(f"a machine runs already (process {_pid()}). Stop it first.")
    template = disk.ensure(variant, BUILD / "apt", disk.cache())
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    [iso] = list(BUILD.glob("*.iso"))[:1] or [None]
    machine = VirtualMachine(FOLDER, template, "", iso)
    machine.insert_disk()
    (FOLDER / "disk").write_text(f"{template.folder}\n", encoding="utf-8")
    (FOLDER / "port").write_text(f"{machine.hardware.port}\n", encoding="ascii")
    print(f"starting {variant}; ./doit.sh machine console shows what it prints")
    machine.switch_on()
    for key in (BUILD / "keys").glob("*.gpg"):
        machine.send(key, f"/root/{key.name}")
    print("it is up: ./doit.sh machine ssh; the ISO is in /dev/vdb, its key in /root")
    return 0


def ssh(_variant: str) -> int:
    """Open a shell on it."""
    machine = _running()
    argv = [*machine.ssh_command(), "-t"] if sys.stdin.isatty() else machine.ssh_command()
    return subprocess.call(argv)


def console(_variant: str) -> int:
    """Show what it prints and pass on what is typed, until Ctrl-] or the end of input."""
    machine = _running()
    sys.stdout.write(machine.printed())
    with socket.socket(socket.AF_UNIX) as line, _raw_terminal():
        line.connect(str(machine.hardware.keyboard))
        while True:
            for ready in select.select([line, sys.stdin.fileno()], [], [])[0]:
                typed = ready is not line
                data = os.read(sys.stdin.fileno(), 1024) if typed else line.recv(1 << 16)
                if not data or (typed and LEAVE in data):
                    return 0
                if typed:
                    line.sendall(data)
                else:
                    os.write(sys.stdout.fileno(), data)


@contextlib.contextmanager
def _raw_terminal():  # type: ignore[no-untyped-def]
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def stop(_variant: str) -> int:
    """Shut it down and remove its disk."""
    pid = _pid()
    if pid:
        _running().call("systemctl", "poweroff")
        until = time.monotonic() + PATIENCE
        while _pid() and time.monotonic() < until:
            time.sleep(0.2)
        if _pid():
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(FOLDER, ignore_errors=True)
    print("it is gone" if pid else "no machine runs")
    return 0


def _pid() -> int:
    """Return the process of the machine, 0 when none runs."""
    try:
        pid = int((FOLDER / "pid").read_text(encoding="ascii"))
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return 0
    return pid if str(FOLDER).encode() in command else 0


def _running() -> VirtualMachine:
    if not _pid():
        raise DiskError("no machine runs. Start one: ./doit.sh machine start.")
    folder = pathlib.Path((FOLDER / "disk").read_text(encoding="utf-8").strip())
    port = int((FOLDER / "port").read_text(encoding="ascii"))
    return VirtualMachine(FOLDER, Disk(folder), "", port=port)


if __name__ == "__main__":
    sys.exit(main())
