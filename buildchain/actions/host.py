"""The machine that builds: which programs it has, and how to get those it lacks.

Programs: the package manager, ``dockerd`` or ``systemctl``.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain import events, process
from buildchain.config import Config
from buildchain.errors import BuildError, CommandError, EngineError, ToolError
from buildchain.model import Tool
from buildchain.tools import host

ENGINE_PATIENCE = 60  # seconds until a started engine must answer
ENGINE_LOG = Path("/var/log/metalk8s-dockerd.log")
# Not programs of their own, but nothing works without them: TLS roots, the archive's keys, the
# engine's firewall, and libraries the engine's package only recommends.
ALWAYS = ("ca-certificates", "debian-archive-keyring", "iptables")


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


def command_of(tool: Tool, config: Config) -> str:
    """Return the configured command of a tool."""
    return config.binary(tool.option) if tool.option else tool.name


def locate(tool: Tool, config: Config) -> str:
    """Return the path of a tool's command, or an empty string."""
    return shutil.which(command_of(tool, config), path=_search_path()) or ""


def _search_path() -> str:
    # dockerd and friends live in sbin, which ordinary users do not search.
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"])


def examine(tool: Tool, config: Config) -> Finding:
    """Look for a tool and compare its version with the minimum."""
    command, path = command_of(tool, config), locate(tool, config)
    if not path:
        return Finding(tool, command, path, "", "is missing")
    version = ""
    if tool.version and tool.minimum:
        try:
            text = process.run([path, *tool.version])
        except CommandError as error:
            return Finding(tool, command, path, "", f"does not run: {error.reason}")
        version = ".".join(str(part) for part in host.parse_version(text))
        if host.is_older(text, tool.minimum):
            return Finding(tool, command, path, version, f"is {version}, below {tool.minimum}")
    return Finding(tool, command, path, version, "")


def check(tool: Tool, config: Config) -> None:
    """Insist on a tool.

    :raises ToolError: it is missing or too old: what for, and which package has it.
    """
    finding = examine(tool, config)
    if not finding.problem:
        return
    option = f" ({tool.option.upper().replace('-', '_')}_BIN)" if tool.option else ""
    package = f"package {tool.package}" if tool.package else "its project; no Debian package has it"
    raise ToolError(
        f"{finding.command}{option} {finding.problem}; it is needed to {tool.reason}",
        solution=f"Run ./doit.sh setup, or install it from {package}.",
    )


def identity(tool: Tool, config: Config) -> list[object]:
    """Return what changes when a tool is replaced: path, size and modification time."""
    path = locate(tool, config)
    if not path:
        return []
    status = Path(path).stat()
    return [path, status.st_size, status.st_mtime_ns]


def missing_packages(tools: Iterable[Tool], config: Config) -> tuple[str, ...]:
    """Return the Debian packages of the tools that are missing, too old or alone, sorted."""
    needed = {
        tool.package
        for tool in tools
        if tool.package and (examine(tool, config).problem or lacks_server(tool, config))
    }
    try:
        process.run(["dpkg-query", "--show", *ALWAYS])
    except CommandError:
        needed.update(ALWAYS)
    return tuple(sorted(needed))


def lacks_server(tool: Tool, config: Config) -> bool:
    """Tell whether a tool is a client alone: nothing answers, and nothing here could be started."""
    return bool(
        tool.server
        and not os.environ.get("DOCKER_HOST")
        and shutil.which(tool.server, path=_search_path()) is None
        and not engine_answers(command_of(tool, config))
    )


def diagnosis(tools: Iterable[Tool], config: Config) -> list[str]:
    """Return a table: each tool, what was found, what for, and what is to be done."""
    rows = [("TOOL", "FOUND", "FOR", "NEEDED TO", "TO DO")]
    for tool in tools:
        finding = examine(tool, config)
        found = "missing" if not finding.path else finding.version or "yes"
        remedy = f"install {tool.package}" if tool.package else "get it from its project"
        to_do = remedy if finding.problem else ""
        rows.append((finding.command, found, ", ".join(tool.purposes), tool.reason, to_do))
    answers = engine_answers(config.binary("docker"))
    state = ("answers", "") if answers else ("silent", "start it")
    rows.append(("Docker engine", state[0], "build", "run builders and make images", state[1]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def engine_answers(docker_binary: str) -> bool:
    """Tell whether the Docker engine answers."""
    from buildchain.actions import engine

    try:
        with engine.connect(docker_binary) as client:
            return bool(client.ping())
    except (EngineError, ToolError):
        return False


def root_prefix() -> list[str]:
    """Return what makes a command run as root.

    :raises BuildError: neither root nor sudo.
    """
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        return ["sudo", "-n"] if not os.isatty(0) else ["sudo"]
    raise BuildError(
        "installing packages needs root, and there is no sudo",
        solution="Run ./doit.sh setup as root once; everything else runs without.",
    )


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
    prefix = root_prefix()
    events.note(f"installing {names}")
    try:
        process.run(host.argv_for_refresh(prefix))
        process.run(host.argv_for_installation(prefix, packages), on_line=_Counter())
    except CommandError as error:
        raise BuildError(
            f"cannot install {names}",
            details=error.details,
            solution="Check the network and the machine's APT sources, then run it again.",
        ) from error


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


def start_engine(docker_binary: str) -> None:
    """Start the Docker engine, through systemd where that runs, and wait until it answers.

    :raises EngineError: it does not within a minute.
    """
    prefix = root_prefix()
    if Path("/run/systemd/system").is_dir():
        events.note("starting the Docker engine through systemd")
        process.run([*prefix, "systemctl", "start", "docker"])
    else:
        events.note(f"starting the Docker engine, log in {ENGINE_LOG}")
        _spawn_engine(prefix)
    deadline = time.monotonic() + ENGINE_PATIENCE
    while not engine_answers(docker_binary):
        if time.monotonic() > deadline:
            raise EngineError(
                f"the Docker engine does not answer after {ENGINE_PATIENCE} s",
                solution=f"Read {ENGINE_LOG} (or journalctl -u docker), then run it again.",
            )
        # There is no event to wait for: the socket appears before the engine answers.
        time.sleep(0.5)


def _spawn_engine(prefix: Sequence[str]) -> None:
    dockerd = shutil.which("dockerd", path=_search_path())
    if dockerd is None:
        raise ToolError("dockerd is missing", solution="Install package docker.io.")
    process.detach([*prefix, dockerd], ENGINE_LOG)
