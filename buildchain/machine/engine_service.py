"""The Docker engine as a service: does one answer, whose is it, and how this machine's is started.

Programs: ``dockerd``, ``systemctl`` and ``journalctl``.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from buildchain.core import events, process
from buildchain.core.errors import CommandError, EngineAccessError, EngineError, ToolError
from buildchain.machine import engine, programs

SERVER = "dockerd"
PATIENCE = 60  # seconds until a started engine must answer
ANSWER_WITHIN = 10  # seconds; an engine that only says that it is there is quick
BETWEEN_TRIES = 0.5  # seconds
LOG = Path("/var/log/metalk8s-dockerd.log")
SYSTEMD = Path("/run/systemd/system")
# Where the engine of the machine's own package listens; empty: the client's default.
OWN = ("", "unix:///var/run/docker.sock", "unix:///run/docker.sock")


@dataclass(frozen=True)
class Standing:
    """Whether an engine answers, and where.

    :param where: its address; empty: the default socket of this machine.
    :param version: empty when nothing answers.
    :param error: why nothing answers.
    """

    where: str
    version: str = ""
    error: EngineError | ToolError | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Tell whether it is not this machine's own, so not ours to install or start."""
        return self.where not in OWN

    @property
    def is_absent(self) -> bool:
        """Tell whether this machine lacks the engine: there is a client at most."""
        is_silent = self.error is not None and not isinstance(self.error, EngineAccessError)
        return is_silent and not self.is_elsewhere and not programs.find(SERVER)


def look(docker_binary: str) -> Standing:
    """Ask the engine that the Docker command talks to."""
    try:
        where = engine.endpoint(docker_binary)
    except ToolError:
        where = ""
    except EngineError as error:
        return Standing(f"context {os.environ.get('DOCKER_CONTEXT', '')}", error=error)
    try:
        with engine.connect(docker_binary, timeout=ANSWER_WITHIN) as client:
            client.ping()
            return Standing(where, str(client.version().get("Version", "")))
    except (EngineError, ToolError) as error:
        return Standing(where, error=error)


def answers(docker_binary: str) -> bool:
    """Tell whether an engine answers."""
    return look(docker_binary).error is None


def will_do(docker_binary: str, minimum: str) -> bool:
    """Tell whether an engine answers that is recent enough."""
    standing = look(docker_binary)
    return standing.error is None and not programs.is_older(standing.version, minimum or "0")


def check_reach(standing: Standing) -> None:
    """Insist that an engine answers, or that it is this machine's to install and start.

    :raises EngineError: it is silent and elsewhere, or it is not for this user.
    """
    if standing.error is None:
        return
    if isinstance(standing.error, EngineAccessError):
        raise standing.error
    if standing.is_elsewhere:
        raise EngineError(
            f"no Docker engine answers at {standing.where}, where {_pointer()} points",
            details=standing.error.details,
            solution=f"Start it there, or {escape()} to use an engine of this machine, which "
            "./doit.sh setup installs and starts.",
        )


def escape() -> str:
    """Return how to come back to this machine's own engine, in the imperative."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        if os.environ.get(name):
            return f"unset {name}"
    return "run docker context use default"


def _pointer() -> str:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        if os.environ.get(name):
            return name
    return "the current docker context"


def ensure(docker_binary: str, minimum: str) -> None:
    """See to it that an engine answers which is recent enough; start this machine's if none does.

    :raises EngineError: it does not, or it is too old.
    """
    standing = look(docker_binary)
    check_reach(standing)
    if standing.error is not None:
        standing = _start(docker_binary)
    if minimum and programs.is_older(standing.version, minimum):
        place = standing.where or "this machine"
        raise EngineError(
            f"the Docker engine of {place} is {standing.version}, below {minimum}",
            solution=f"Install a newer one there (Debian 12's package docker.io), or {escape()}.",
        )


class _Started(Protocol):
    def runs(self) -> bool:
        """Tell whether it has not ended."""

    def said(self) -> str:
        """Return the end of what it logged."""


@dataclass(frozen=True)
class _Unit:
    prefix: Sequence[str]

    def runs(self) -> bool:
        try:
            process.run(["systemctl", "is-active", "--quiet", "docker"])
        except CommandError:
            return False
        return True

    def said(self) -> str:
        argv = ["journalctl", "--no-pager", "--output=cat", "--unit=docker"]
        with contextlib.suppress(CommandError, ToolError):
            return process.tail(process.run([*self.prefix, *argv, f"--lines={process.TAIL_LINES}"]))
        return ""


@dataclass(frozen=True)
class _Daemon:
    """:param before: bytes that the log had already."""

    pid: int
    before: int

    def runs(self) -> bool:
        return process.lives(self.pid)

    def said(self) -> str:
        with contextlib.suppress(OSError), LOG.open("rb") as stream:
            stream.seek(self.before)
            return process.tail(stream.read().decode("utf-8", "replace"))
        return ""


def _start(docker_binary: str) -> Standing:
    """Start this machine's engine and wait until it answers.

    :raises EngineError: it ended, or it does not answer in time: with the end of its log.
    """
    prefix = programs.root_prefix()
    started = _start_unit(prefix) if SYSTEMD.is_dir() else _start_daemon(prefix)
    deadline = time.monotonic() + PATIENCE
    while True:
        # In this order: what ended after it was asked has not ended yet.
        runs, standing = started.runs(), look(docker_binary)
        if standing.error is None:
            return standing
        check_reach(standing)
        if not runs:
            raise _silent("ended before it answered", started)
        if time.monotonic() > deadline:
            raise _silent(f"does not answer after {PATIENCE} s", started)
        # There is no event to wait for: the socket appears before the engine answers.
        time.sleep(BETWEEN_TRIES)


def _silent(how: str, started: _Started) -> EngineError:
    log = "journalctl -u docker" if isinstance(started, _Unit) else str(LOG)
    return EngineError(
        f"the Docker engine was started and {how}",
        details=started.said(),
        solution=f"Mend what its log says ({log} has all of it), then run ./doit.sh setup again.",
    )


def _start_unit(prefix: Sequence[str]) -> _Started:
    events.note("starting the Docker engine through systemd")
    unit = _Unit(prefix)
    try:
        process.run([*prefix, "systemctl", "start", "docker"])
    except CommandError as error:
        raise EngineError(
            "systemd cannot start the Docker engine",
            details=unit.said() or error.details,
            solution="Mend what it says (journalctl -u docker has all of it), then run "
            "./doit.sh setup again.",
        ) from error
    return unit


def _start_daemon(prefix: Sequence[str]) -> _Started:
    dockerd = programs.find(SERVER)
    if not dockerd:
        raise ToolError(f"{SERVER} is missing", solution="Install package docker.io.")
    events.note(f"starting the Docker engine, log in {LOG}")
    before = LOG.stat().st_size if LOG.exists() else 0
    return _Daemon(process.detach([dockerd], LOG, prefix), before)
