"""A server as a place, by rsync: over SSH (``host:/path``) or its own protocol (``rsync://``).

Programs: ``rsync`` 3.2.3 or newer at both ends, ``ssh``. rsync writes beside a file and moves it
there, and keeps what came of one that was interrupted in ``.rsync-partial`` at the server. What
arrived is compared by checksums of whole files, which the server computes from its disk.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from buildchain.core import process
from buildchain.core.errors import BuildError, CommandError, ConfigError, PlaceError, ToolError
from buildchain.publication import index
from buildchain.publication.place import CHUNK, Absent, Target

# No colon in what stands before the path but those of an IPv6 address in brackets; none leads
# with `-`, which would be an option.
HOST = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9a-fA-F:]+\])"
USER = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?"
SSH = re.compile(rf"{USER}{HOST}:(?!:)([^\0\n]+)")
DAEMON = re.compile(rf"rsync://{USER}{HOST}(?::[0-9]{{1,5}})?/([^\0\n]+)")
SHELL = "ssh -o BatchMode=yes -o ConnectTimeout=30"
SILENCE = 120  # seconds
PARTIAL = ".rsync-partial"
# With permissions, size, date and time before it.
ENTRY = re.compile(r"-[rwxsStT-]{9}[.+@]? +([0-9,]+) [0-9/]{10} [0-9:]{8} (.+)")
# What rsync's own environment says of logins and ways, and ssh's agent.
KEPT = ("RSYNC_PASSWORD", "RSYNC_RSH", "RSYNC_PROXY", "RSYNC_CONNECT_PROG", "SSH_AUTH_SOCK")
MISSING = re.compile(r"No such file or directory")
PROGRAM = "rsync"


def is_remote(text: str) -> bool:
    """Tell whether it names a server behind SSH; a folder with a colon is written ``./a:b``."""
    return ":" in text.partition("/")[0] and not text.startswith((".", "/", "~"))


class Remote(Target):
    """A folder of a server.

    :param text: ``[user@]host:path`` or ``rsync://[user@]host[:port]/module[/path]``.
    :raises ConfigError: it is neither.
    """

    def __init__(self, text: str) -> None:
        self.is_daemon = text.startswith("rsync://")
        pattern = DAEMON if self.is_daemon else SSH
        if pattern.fullmatch(text) is None:
            raise ConfigError(
                "the address for rsync is none, or has a password in it",
                solution="Name [user@]host:/path or rsync://[user@]host/module/path; a password of "
                "an rsync server goes into RSYNC_PASSWORD.",
            )
        self.name = text.rstrip("/")

    def pieces(self, name: str, start: int = 0) -> Iterator[bytes]:
        """Yield a file from byte ``start`` on; rsync brings all of it before."""
        folder, _, last = name.rpartition("/")
        if last not in self.sizes(folder):
            raise Absent(name)
        with tempfile.TemporaryDirectory(prefix="mk8s-rsync-") as scratch:
            file = Path(scratch) / "file"
            self._run([self._at(name), str(file)])
            with file.open("rb") as stream:
                stream.seek(start)
                while piece := stream.read(CHUNK):
                    yield piece

    def prepare(self, need: int) -> None:  # noqa: ARG002
        """Make the folder; how much room there is rsync does not tell."""
        with tempfile.TemporaryDirectory(prefix="mk8s-rsync-") as empty:
            self._run(["--recursive", "--mkpath", f"{empty}/", self._at("")])

    def sizes(self, folder: str) -> Mapping[str, int]:
        """Return the files of a folder."""
        try:
            listing = self._run(["--list-only", self._at(f"{folder}/" if folder else "")])
        except PlaceError as error:
            if MISSING.search(error.details) and "failed" in error.details:
                return {}
            raise
        found = filter(None, map(ENTRY.fullmatch, listing.splitlines()))
        return {match[2]: int(match[1].replace(",", "")) for match in found}

    def send(self, file: Path, name: str) -> None:
        """Send a file; what came of it before is gone on with."""
        self._run([*self._sending(), f"--partial-dir={PARTIAL}", str(file), self._at(name)])

    def holds(self, name: str, file: Path, sha256: str) -> bool:  # noqa: ARG002
        """Tell whether the server's checksum of the whole file is that of ours."""
        try:
            options = ["--checksum", "--dry-run", "--out-format=differs: %n"]
            told = self._run([*options, str(file), self._at(name)])
        except PlaceError as error:
            if MISSING.search(error.details):
                return False
            raise
        return "differs: " not in told

    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove files; rsync deletes what an empty folder has not."""
        wanted = [f"--include=/{name}" for name in names if index.is_file_name(name)]
        with tempfile.TemporaryDirectory(prefix="mk8s-rsync-") as empty:
            options = ["--recursive", "--delete", f"--include=/{PARTIAL}/***", *wanted]
            self._run([*options, "--exclude=*", f"{empty}/", self._at(f"{folder}/")])

    def _sending(self) -> list[str]:
        # By size and time rsync would take a damaged file for a good one.
        return ["--mkpath", "--ignore-times", "--chmod=F644,D755", "--perms"]

    def _at(self, name: str) -> str:
        return f"{self.name}/{name}"

    def _run(self, arguments: list[str]) -> str:
        env = {name: os.environ[name] for name in KEPT if name in os.environ}
        # Without one rsync would ask on the terminal, where nobody may be.
        env.setdefault("RSYNC_PASSWORD", "")
        # With it rsync takes its own protocol to a daemon through the shell, too.
        shell = [] if self.is_daemon else [f"--rsh={env.get('RSYNC_RSH', SHELL)}"]
        try:
            return process.run([PROGRAM, *shell, f"--timeout={SILENCE}", *arguments], env=env)
        except CommandError as error:
            raise self._refusal(error) from error
        except ToolError as error:
            raise PlaceError(error.reason, solution=f"Install {PROGRAM}, then go on.") from error

    def _refusal(self, error: BuildError) -> PlaceError:
        return PlaceError(
            f"{self.name}: rsync did not succeed",
            details=error.details,
            solution="Check the address, that you may log in without being asked (a key, an "
            "agent, RSYNC_PASSWORD), and that rsync 3.2.3 or newer is there.",
        )
