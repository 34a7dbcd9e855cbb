"""keepalived as a child of this program: started with a first address, ended with the last one."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address
from pathlib import Path

from metalk8s_load_balancer.machine import Leftovers, MachineError, run

PATIENCE = 8  # seconds to end in


class Keepalived:
    """The one of this machine.

    :param folder: for its configuration, and for what has to outlive this program.
    :param ended: is called when it ended by itself.
    """

    def __init__(self, folder: Path, ended: Callable[[], None]) -> None:
        self._folder, self._ended = folder, ended
        self._leftovers = Leftovers(folder / "addresses")
        self._process: subprocess.Popen[bytes] | None = None
        self._text: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is one."""
        return self._process is not None and self._process.poll() is None

    def apply(self, text: str, addresses: Sequence[IPv4Address], interface: str) -> str:
        """Let it do what a configuration says; without one, it ends. Return what was done.

        :raises MachineError: it does not take it. It goes on as it was.
        """
        if text == self._text and self.is_running == bool(text):
            return ""
        if not text:
            self.stop()
            self._text = text
            return "keepalived has nothing to do"
        self._check(text)
        if self.is_running and self._process is not None:
            self._leftovers.expect(addresses, interface)
            self._process.send_signal(signal.SIGHUP)
            done = "keepalived reads its configuration"
        else:
            self._leftovers.clear()
            self._leftovers.expect(addresses, interface)
            self._start()
            done = "keepalived began"
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
        self._leftovers.clear()

    def _check(self, text: str) -> None:
        """Put a configuration that keepalived understands into its place."""
        candidate = self._folder / "keepalived.conf.new"
        candidate.write_text(text, encoding="ascii")
        candidate.chmod(0o600)
        run(["keepalived", "--config-test", "--use-file", candidate])
        candidate.replace(self._folder / "keepalived.conf")

    def _start(self) -> None:
        argv = [
            *("keepalived", "--dont-fork", "--vrrp", "--log-console", "--no-syslog"),
            *("--use-file", self._folder / "keepalived.conf"),
            *("--pid", self._folder / "keepalived.pid"),
            *("--vrrp_pid", self._folder / "vrrp.pid"),
        ]
        try:
            process = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL)
        except OSError as error:
            raise MachineError(f"keepalived: {error}") from error
        self._process = process

        def wait() -> None:
            process.wait()
            if self._process is process:
                self._ended()

        threading.Thread(target=wait, name="keepalived", daemon=True).start()
