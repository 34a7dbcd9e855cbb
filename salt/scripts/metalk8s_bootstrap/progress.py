"""What the operator sees of a run, and its log."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from metalk8s_bootstrap import folders

WIDTH = 44  # of a step's title


@dataclass
class Progress:
    """One line a step on the terminal; everything else in the log.

    :param total: number of steps.
    :param verbose: the log on the terminal, too.
    """

    log: TextIO
    total: int
    verbose: bool = False
    screen: TextIO = field(default_factory=lambda: sys.stdout)
    number: int = 0
    title: str = ""

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[list[str]]:
        """Show a step; what is put into the list it gives is the result that is shown."""
        began = time.monotonic()
        self.number += 1
        self.title = title
        self.note(f"step {self.number}/{self.total}: {title}")
        is_terminal = self.screen.isatty() and not self.verbose
        if is_terminal:
            print(self._line(title), end="", flush=True, file=self.screen)
        results: list[str] = []
        try:
            yield results
        except BaseException:
            if is_terminal:
                print(file=self.screen)
            raise
        took = time.monotonic() - began
        self.done(title, took, results[0] if results else "", again=is_terminal)

    def passed(self, title: str, seconds: float) -> None:
        """Show a step that was done before there was a log."""
        self.number += 1
        self.done(title, seconds, "")

    def done(self, title: str, seconds: float, result: str, *, again: bool = False) -> None:
        """Show that a step is done."""
        start = "\r" if again else ""
        line = f"{self._line(title)}{seconds:7.1f} s  {result}".rstrip()
        print(f"{start}{line}", flush=True, file=self.screen)
        self.note(line.strip())

    def _line(self, title: str) -> str:
        width = len(str(self.total))
        return f"[{self.number:{width}}/{self.total}] {title:<{WIDTH}}"

    def note(self, text: str) -> None:
        """Write a line into the log, with the time."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.output(f"{stamp} {text}\n")

    def output(self, text: str) -> None:
        """Write what a program says into the log."""
        self.log.write(text)
        self.log.flush()
        if self.verbose:
            print(text, end="", flush=True, file=self.screen)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a log for appending; only root reads it, since programs may say secrets."""
    folders.make(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.fchmod(descriptor, 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as stream:
        yield stream
