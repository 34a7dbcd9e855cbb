"""The machine that builds: which programs it has, and how to get those it lacks.

Programs: ``apt-get``, ``dpkg``, and each program of the table, which is asked for its version.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import events, process
from buildchain.core.errors import BuildError, CommandError, EngineAccessError, ToolError
from buildchain.machine import engine_service, programs
from buildchain.machine.engine_service import Standing
from buildchain.project.config import Config
from buildchain.project.model import Tool

# Not programs of their own, but nothing works without them: TLS roots, the archive's keys, the
# engine's firewall, and libraries the engine's package only recommends.
ALWAYS = ("ca-certificates", "debian-archive-keyring", "iptables")
# How a shell, a loader and env say that a program could not be started at all.
NOT_STARTED = (126, 127)


@dataclass(frozen=True)
class Finding:
    """What was found of one tool.

    :param problem: empty when it will do.
    """

    tool: Tool
    command: str
    path: str
    version: str
    problem: str

    @property
    def sentence(self) -> str:
        """Say what is wrong, and what the tool is needed for."""
        option = f" ({_variable(self.tool)})" if self.tool.option else ""
        return f"{self.command}{option} {self.problem}; it is needed to {self.tool.reason}"


def _variable(tool: Tool) -> str:
    return f"{tool.option.upper().replace('-', '_')}_BIN"


def command_of(tool: Tool, config: Config) -> str:
    """Return the configured command of a tool."""
    return config.binary(tool.option) if tool.option else tool.name


def locate(tool: Tool, config: Config) -> str:
    """Return the path of a tool's command, or an empty string."""
    return programs.find(command_of(tool, config))


def examine(tool: Tool, config: Config) -> Finding:
    """Look for a tool, start it and compare its version with the minimum."""
    command, path = command_of(tool, config), locate(tool, config)
    if not path:
        return Finding(tool, command, path, "", "is missing")
    if not tool.version:
        return Finding(tool, command, path, "", "")
    try:
        text = process.run([path, *tool.version])
    except (CommandError, ToolError) as error:
        # Some tell their version or usage and fail nevertheless: they started.
        if (
            not tool.minimum
            and isinstance(error, CommandError)
            and 0 < error.status < min(NOT_STARTED)
        ):
            return Finding(tool, command, path, "", "")
        return Finding(tool, command, path, "", f"does not run: {error.reason}")
    return _of_version(tool, command, path, text)


def _of_version(tool: Tool, command: str, path: str, text: str) -> Finding:
    if not tool.minimum:
        return Finding(tool, command, path, "", "")
    version = ".".join(str(part) for part in programs.parse_version(text))
    is_old = programs.is_older(text, tool.minimum)
    return Finding(
        tool, command, path, version, f"is {version}, below {tool.minimum}" if is_old else ""
    )


def check(tool: Tool, config: Config) -> None:
    """Insist on a tool.

    :raises ToolError: it is missing, does not run or is too old.
    """
    finding = examine(tool, config)
    if not finding.problem:
        return
    package = f"package {tool.package}" if tool.package else "its project; no Debian package has it"
    raise ToolError(
        finding.sentence, solution=f"Run ./doit.sh setup, or install it from {package}."
    )


def check_installed(tools: Iterable[Tool], config: Config) -> None:
    """Insist on tools whose packages have just been installed.

    :raises ToolError: naming every one that will not do though its package is there.
    """
    bad = [finding for tool in tools if (finding := examine(tool, config)).problem]
    if bad:
        raise ToolError(
            "; ".join(finding.sentence for finding in bad),
            solution="; ".join(map(_remedy, bad)) + ".",
        )


def _remedy(finding: Finding) -> str:
    """Return what helps when installing the package did not."""
    tool = finding.tool
    if not tool.package:
        return f"Install {finding.command} from its project; no Debian package has it"
    name = f"set {_variable(tool)} to" if tool.option else "put first on PATH"
    first = f"Remove {finding.path} or " if finding.path else ""
    return f"{first or 'Then '}{name} the {tool.name} of package {tool.package}, which is installed"


def identity(tool: Tool, config: Config) -> list[object]:
    """Return what changes when a tool is replaced: path, size and modification time."""
    path = locate(tool, config)
    if not path:
        return []
    status = Path(path).stat()
    return [path, status.st_size, status.st_mtime_ns]


def missing_packages(tools: Iterable[Tool], config: Config) -> tuple[str, ...]:
    """Return the Debian packages to install, sorted.

    Those of tools that are missing, do not run, are too old or have no server, and those that were
    left half-installed.
    """
    states = package_states()
    needed = {
        tool.package
        for tool in tools
        if tool.package
        and (
            examine(tool, config).problem
            or states.get(tool.package) in programs.UNFINISHED
            or lacks_server(tool, config)
        )
    }
    if states:
        needed.update(name for name in ALWAYS if states.get(name) != programs.INSTALLED)
    return tuple(sorted(needed))


def package_states() -> Mapping[str, str]:
    """Return what dpkg says of each package it knows; nothing on a machine without dpkg."""
    with contextlib.suppress(ToolError, CommandError):
        return programs.parse_states(process.run(programs.ARGV_FOR_STATES))
    return {}


def lacks_server(tool: Tool, config: Config) -> bool:
    """Tell whether a tool is a client whose server this machine lacks or has too old."""
    if not tool.server:
        return False
    standing = engine_service.look(command_of(tool, config))
    is_old = bool(tool.minimum) and programs.is_older(standing.version, tool.minimum)
    return standing.is_absent or (is_old and not standing.is_elsewhere)


def check_servers(tools: Iterable[Tool], config: Config) -> None:
    """Insist that what answers elsewhere does, before anything is installed here in its place.

    :raises EngineError: it does not.
    """
    for tool in tools:
        if tool.server:
            engine_service.check_reach(engine_service.look(command_of(tool, config)))


def diagnosis(tools: Iterable[Tool], config: Config) -> list[str]:
    """Return a table: each tool, what was found, what for, and what is to be done."""
    states = package_states()
    rows = [("TOOL", "FOUND", "FOR", "NEEDED TO", "TO DO")]
    for tool in tools:
        finding = examine(tool, config)
        found = _found(finding, states)
        remedy = f"install {tool.package}" if tool.package else "get it from its project"
        to_do = "" if not finding.problem and found not in programs.UNFINISHED else remedy
        rows.append((finding.command, found, ", ".join(tool.purposes), tool.reason, to_do))
    standing = engine_service.look(config.binary("docker"))
    found, to_do = _engine_state(standing)
    rows.append(("Docker engine", found, "build", "run builders and make images", to_do))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _found(finding: Finding, states: Mapping[str, str]) -> str:
    if not finding.path:
        return "missing"
    if finding.problem and not finding.version:
        return "does not run"
    state = states.get(finding.tool.package, "")
    return state if state in programs.UNFINISHED else finding.version or "yes"


def _engine_state(standing: Standing) -> tuple[str, str]:
    """Return what was found of the engine, and what is to be done."""
    if standing.error is None:
        return standing.version or "answers", ""
    if isinstance(standing.error, EngineAccessError):
        return "not for you", 'join the group "docker"'
    if standing.is_elsewhere:
        return f"silent at {standing.where}", f"{engine_service.escape()}, or start it"
    if standing.is_absent:
        return "client alone", "setup installs docker.io"
    return "silent", "setup starts it"


def install(packages: Sequence[str]) -> None:
    """Install packages with the machine's package manager.

    :raises BuildError: it is no Debian-family machine, or they cannot be had.
    """
    if not packages:
        return
    names = " ".join(packages)
    if not shutil.which("apt-get"):
        raise BuildError(
            f"this machine has no apt-get to install {names}",
            solution="Install them yourself; the names are Debian 12's.",
        )
    prefix = programs.root_prefix()
    _finish_packages(prefix)
    events.note(f"installing {names}")
    try:
        process.run(programs.argv_for_refresh(prefix))
        process.run(programs.argv_for_installation(prefix, packages), on_line=_Counter())
    except CommandError as error:
        raise BuildError(
            f"cannot install {names}",
            details=error.details,
            solution="Check the network and the machine's APT sources, then run it again.",
        ) from error


def _finish_packages(prefix: Sequence[str]) -> None:
    """Go on with what an interrupted dpkg left, which APT does not."""
    states = package_states()
    unfinished = sorted(name for name, state in states.items() if state in programs.UNFINISHED)
    if unfinished:
        events.note(f"finishing the installation of {' '.join(unfinished)}")
        # What it cannot finish APT unpacks again, or fails with the reason.
        with contextlib.suppress(CommandError):
            process.run(programs.argv_for_configuration(prefix))


class _Counter:
    """Counts packages as APT fetches and sets them up."""

    def __init__(self) -> None:
        self.fetched = self.configured = 0

    def __call__(self, line: str) -> None:
        if line.startswith("Get:"):
            self.fetched += 1
        elif line.startswith("Setting up "):
            self.configured += 1
            events.progress("setting up packages", self.configured, self.fetched, "packages")
