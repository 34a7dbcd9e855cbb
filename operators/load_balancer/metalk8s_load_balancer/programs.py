"""keepalived and BIRD as children of this program: begun with a first address, ended with the last.

Each is told to read its configuration only when that is another text, and has proven to be one.
"""

from __future__ import annotations

import abc
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address
from pathlib import Path

from metalk8s_load_balancer.machine import Leftovers, MachineError, run

PATIENCE = 5  # seconds to end in
PIDS = ("keepalived.pid", "vrrp.pid")


class Child(abc.ABC):
    """A program with a configuration.

    :param folder: for its configuration, and for what has to outlive this program.
    :param ended: is called when it ended by itself.
    """

    name = ""

    def __init__(self, folder: Path, ended: Callable[[], None]) -> None:
        self._folder, self._ended = folder, ended
        self._process: subprocess.Popen[bytes] | None = None
        self._text: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is one."""
        return self._process is not None and self._process.poll() is None

    @property
    def _file(self) -> Path:
        return self._folder / f"{self.name}.conf"

    def apply(self, text: str, addresses: Sequence[IPv4Address], interface: str) -> str:
        """Let it do what a configuration says; without one, it ends. Return what was done.

        :raises MachineError: it does not take it. It goes on as it was.
        """
        if text == self._text and self.is_running == bool(text):
            return ""
        if text:
            self._replace(text)
            done = self._begin_or_reload(addresses, interface)
        else:
            had = self.is_running
            self.stop()
            done = f"{self.name} has nothing to do" if had else ""
        self._text = text
        return done

    def stop(self) -> None:
        """Let it give its addresses to other machines, and end."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._file.unlink(missing_ok=True)

    def _begin_or_reload(self, addresses: Sequence[IPv4Address], interface: str) -> str:
        if self.is_running:
            self._expect(addresses, interface)
            self._reload()
            return f"{self.name} reads its configuration"
        self._clear()
        self._expect(addresses, interface)
        self._start()
        return f"{self.name} began"

    def _replace(self, text: str) -> None:
        """Put a configuration that the program understands into its place."""
        candidate = self._file.with_suffix(".new")
        candidate.touch(mode=0o600)
        candidate.write_text(text, encoding="ascii")
        run(self._test(candidate))
        candidate.replace(self._file)

    def _start(self) -> None:
        argv = [str(word) for word in self._command()]
        try:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise MachineError(f"{self.name}: {error}") from error
        self._process = process

        def wait() -> None:
            process.wait()
            if self._process is process:
                self._ended()

        threading.Thread(target=wait, name=self.name, daemon=True).start()

    @abc.abstractmethod
    def _command(self) -> list[str | Path]:
        """Return how it is started."""

    @abc.abstractmethod
    def _test(self, candidate: Path) -> list[str | Path]:
        """Return what tells whether a configuration is one."""

    @abc.abstractmethod
    def _reload(self) -> None:
        """Let it read its configuration."""

    @abc.abstractmethod
    def _expect(self, addresses: Sequence[IPv4Address], interface: str) -> None:
        """Note what it could leave behind."""

    @abc.abstractmethod
    def _clear(self) -> None:
        """Take away what one that was killed has left behind."""


class Keepalived(Child):
    """Brings addresses to the machine."""

    name = "keepalived"

    def __init__(self, folder: Path, ended: Callable[[], None]) -> None:
        super().__init__(folder, ended)
        self._leftovers = Leftovers(folder / "addresses")

    def stop(self) -> None:
        """Let it give its addresses to other machines, and end."""
        super().stop()
        self._clear()

    def _command(self) -> list[str | Path]:
        return [
            *("keepalived", "--dont-fork", "--vrrp", "--log-console", "--no-syslog"),
            *("--use-file", self._file),
            *("--pid", self._folder / PIDS[0]),
            *("--vrrp_pid", self._folder / PIDS[1]),
        ]

    def _test(self, candidate: Path) -> list[str | Path]:
        return ["keepalived", "--config-test", "--use-file", candidate]

    def _reload(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    def _expect(self, addresses: Sequence[IPv4Address], interface: str) -> None:
        self._leftovers.expect(addresses, interface)

    def _clear(self) -> None:
        # In a container that was killed it had a number that is another process's in the next one.
        for name in PIDS:
            (self._folder / name).unlink(missing_ok=True)
        self._leftovers.clear()


class Bird(Child):
    """Tells routers of addresses. It leaves nothing behind: routers notice that it is gone."""

    name = "bird"

    def _command(self) -> list[str | Path]:
        return ["bird", "-f", "-c", self._file, "-s", self._socket]

    def _test(self, candidate: Path) -> list[str | Path]:
        return ["bird", "-p", "-c", candidate]

    def _reload(self) -> None:
        # soft: sessions that are as they were stay
        said = run(["birdcl", "-s", self._socket, "configure", "soft"])
        if "econfigur" not in said.splitlines()[-1]:
            raise MachineError(f"birdcl configure soft: {said.strip()}")

    def _expect(self, addresses: Sequence[IPv4Address], interface: str) -> None:
        """Note nothing: no address is set."""

    def _clear(self) -> None:
        """Take nothing away."""

    @property
    def _socket(self) -> Path:
        return self._folder / "bird.ctl"
