"""A program that is asked in lines, and answers in lines."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
from collections.abc import Sequence

from metalk8s_bootstrap.system import System


class Dialog:
    """A running program; all that it says is in the log.

    It holds the lock, too, as what ``System.run`` starts.

    :param mark: what those lines of its standard output begin with that are answers.
    :raises StepError: it cannot be started.
    """

    def __init__(self, system: System, argv: Sequence[str], mark: str) -> None:
        self._system, self._mark, self._unread = system, mark.encode(), b""
        sentence = "nobody can be asked"
        self._process = system.start(argv, sentence=sentence, stdin=subprocess.PIPE)
        self._selector = selectors.DefaultSelector()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream
            self._selector.register(stream, selectors.EVENT_READ)

    @property
    def has_ended(self) -> bool:
        """Whether nothing will be answered any more."""
        while self._read(0):
            pass
        return not self._selector.get_map()

    def say(self, line: str) -> None:
        """Say a line; whether anybody heard it, an answer tells."""
        assert self._process.stdin
        self._system.tail = ""
        self._system.progress.note(f"> {line}")
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{line}\n".encode())

    def hear(self) -> str | None:
        """Return its next answer; ``None`` when it ended without one."""
        while True:
            line, end, rest = self._unread.partition(b"\n")
            if end:
                self._unread = rest
                if line.startswith(self._mark):
                    return line[len(self._mark) :].decode("utf-8", "replace")
            elif not self._read(None):
                return None

    def _read(self, patience: float | None) -> bool:
        """Read what it says; tell whether it said anything, or ended a stream.

        :param patience: seconds; ``None``: until then.
        """
        ready = self._selector.select(patience) if self._selector.get_map() else []
        for key, _ in ready:
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._selector.unregister(key.fileobj)
            elif key.fileobj is self._process.stdout:
                self._unread += data
            self._system.heard(data.decode("utf-8", "replace"))
        return bool(ready)

    def close(self) -> None:
        """Ask nothing more; what it does for the last question, it does to the end elsewhere."""
        with self._process, self._selector, contextlib.suppress(OSError):
            self._process.terminate()
