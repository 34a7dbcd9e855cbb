"""What the user sees: the only module that prints.

::

    --  BUILD IMAGE  pause:3.4                      up to date, skipped
    ..  BUILD IMAGE  etcd:3.4.23            4.2 s   executed
    !!  BUILD ISO    metalk8s.iso                   ignored
    ??  SIGN         RPMs                   0.3 s   waits for signatures

On a terminal a status line shows what is running and how far it is; elsewhere a line comes every
half minute. Everything else goes to ``_build/build.log``. Colours only on a terminal, and never
with ``NO_COLOR``.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from doit import reporter
from doit.exceptions import UnmetDependency
from doit.globals import Globals

from buildchain.core import events
from buildchain.core.build_root import listen, make_root, open_log, take
from buildchain.core.errors import BuildError, WaitingError
from buildchain.core.step import is_reading

STATUS_EVERY = 0.5  # seconds between two updates of the status line
HEARTBEAT_EVERY = 30.0  # seconds between two signs of life without a terminal
TITLE_WIDTH = 60  # columns before the duration
COLOURS = {"..": "32", "--": "2", "!!": "33", "??": "33", "failed": "31"}
# Exit status of a run that did all it can without signatures (EX_TEMPFAIL of sysexits.h).
WAITS = 75
CLEAR_LINE = "\r\033[K"


def refuse(error: BuildError, stream: IO[str] | None = None) -> int:
    """Print why nothing can be done and return the exit status."""
    print(error.friendly(), file=stream or sys.stderr)
    return 2


def log_path() -> Path | None:
    """Return where the transcript goes: beside doit's database."""
    manager = Globals.dep_manager
    return Path(manager.name).parent / "build.log" if manager is not None else None


def only_reads(tasks: Mapping[str, Any], selected: Sequence[str]) -> bool:
    """Tell whether nothing that is to be done needs the build root for itself."""
    pending, seen = list(selected), set[str]()
    while pending:
        name = pending.pop()
        task = tasks[name]
        if task.actions and not is_reading(task.meta):
            return False
        seen.add(name)
        pending += {*task.task_dep, *task.setup_tasks} - seen
    return bool(selected)


class _Bookkeeping:
    """What every reporter does: keep the transcript and save doit's state after each task.

    Tasks that only read leave both as they are, for a build may be at work beside them.
    """

    lock: IO[str] | None = None
    log: Path | None = None

    def initialize(self, tasks: Mapping[str, Any], selected: Sequence[str]) -> None:
        path = log_path()
        if path is None:
            return
        if only_reads(tasks, selected):
            listen()
            Globals.dep_manager.backend.freeze()
            return
        try:
            make_root(path.parent)
            self.lock = take(path.parent)
            open_log(path)
        except BuildError as error:
            raise SystemExit(refuse(error)) from error
        self.log = path

    def complete_run(self) -> None:
        super().complete_run()  # type: ignore[misc]
        if self.lock is not None:
            self.lock.close()

    def execute_task(self, task: Any) -> None:
        events.transcript(f"== {task.name}")
        super().execute_task(task)  # type: ignore[misc]

    def add_success(self, task: Any) -> None:
        super().add_success(task)  # type: ignore[misc]
        if Globals.dep_manager is not None and task.actions:
            Globals.dep_manager.backend.dump()

    def add_failure(self, task: Any, fail: Any) -> None:
        events.transcript(f"== {task.name} failed\n{fail.get_msg()}")
        super().add_failure(task, fail)  # type: ignore[misc]


class JsonReporter(_Bookkeeping, reporter.JsonReporter):  # type: ignore[misc]
    """doit's JSON output, with our bookkeeping."""

    desc = "output in JSON format"


class Status(logging.Handler):
    """The line that lives: what runs, for how long, how far."""

    def __init__(self, stream: IO[str], *, is_terminal: bool) -> None:
        super().__init__()
        self.stream = stream
        self.is_terminal = is_terminal
        self.running: dict[str, tuple[str, float]] = {}
        self.progress: events.Progress | None = None
        self.closing: list[str] = []
        self.summaries: dict[str, str] = {}
        self.drawn = False
        self.heard = time.monotonic()
        self.guard = threading.RLock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        note = getattr(record, "note", None)
        if note is not None:
            self.print(f"    {note}")
        closing = getattr(record, "closing", None)
        if closing is not None:
            self.closing.append(closing)
        summary = getattr(record, "summary", None)
        if summary is not None:
            self.summaries.update([summary])
        echoed = getattr(record, "echo", None)
        if echoed is not None:
            self.print(echoed)
        self.progress = getattr(record, "progress", self.progress)

    def start(self, name: str, text: str) -> None:
        """Begin to show a task."""
        with self.guard:
            self.running[name] = (text, time.monotonic())
            self.progress = None

    def end(self, name: str) -> float:
        """Stop showing a task and return how long it took, in seconds."""
        with self.guard:
            _, since = self.running.pop(name, ("", time.monotonic()))
            self.progress = None
            return time.monotonic() - since

    def print(self, line: str) -> None:
        """Print a line that stays."""
        with self.guard:
            self.erase()
            self.stream.write(f"{line}\n")
            self.stream.flush()
            self.heard = time.monotonic()

    def erase(self) -> None:
        """Take the status line off the terminal."""
        if self.drawn:
            self.stream.write(CLEAR_LINE)
            self.drawn = False

    def close(self) -> None:
        """End the life of the line."""
        self._stop.set()
        self._thread.join()
        with self.guard:
            self.erase()
        super().close()

    def _live(self) -> None:
        while not self._stop.wait(STATUS_EVERY):
            with self.guard:
                self._beat(time.monotonic())

    def _beat(self, now: float) -> None:
        if not self.running:
            return
        if self.is_terminal:
            self.erase()
            # A terminal that does not know its size says 0.
            columns = os.get_terminal_size(self.stream.fileno()).columns or 80
            self.stream.write(self.describe(now)[: columns - 1])
            self.stream.flush()
            self.drawn = True
        elif now - self.heard >= HEARTBEAT_EVERY:
            self.print(self.describe(now))

    def describe(self, now: float) -> str:
        """Return the status line's text."""
        tasks = ", ".join(
            f"{' '.join(text.split())} ({now - since:.0f} s)"
            for text, since in self.running.values()
        )
        return f"    {tasks}{_progress_text(self.progress)}"


def _progress_text(progress: events.Progress | None) -> str:
    if progress is None:
        return ""
    total = f"/{progress.total}" if progress.total else ""
    return f": {progress.subject} {progress.done}{total} {progress.unit}".rstrip()


class BuildReporter(_Bookkeeping):
    """The reporter of the build chain."""

    desc = "one aligned line a task, failures at the end"

    def __init__(self, outstream: IO[str], options: Mapping[str, object]) -> None:
        del options
        self.stream = outstream
        self.is_terminal = outstream.isatty()
        self.has_colours = self.is_terminal and not os.environ.get("NO_COLOR")
        self.failures: list[tuple[str, str]] = []
        self.errors: list[str] = []
        self.waiting: set[str] = set()
        self.wanted: dict[str, str] = {}
        self.executed = 0
        self.status: Status | None = None

    def initialize(self, tasks: Mapping[str, Any], selected: Sequence[str]) -> None:
        """Begin: open the transcript and the status line."""
        super().initialize(tasks, selected)
        self.status = Status(self.stream, is_terminal=self.is_terminal)
        events.LOGGER.addHandler(self.status)

    def get_status(self, task: object) -> None:
        """Nothing to show while doit looks whether a task is up to date."""

    def execute_task(self, task: Any) -> None:
        """Show that a task starts (on the status line)."""
        events.transcript(f"== {task.name}")
        if task.actions and self.status is not None:
            self.status.start(task.name, task.title())

    def add_success(self, task: Any) -> None:
        """Print a task that was executed, with its duration."""
        if not task.actions:
            return
        self.executed += 1
        self._line("..", task.title(), self._seconds(task))
        if Globals.dep_manager is not None:
            Globals.dep_manager.backend.dump()

    def add_failure(self, task: Any, fail: Any) -> None:
        """Print a task that failed; its output comes at the end."""
        events.transcript(f"== {task.name} failed\n{fail.get_msg()}")
        if not fail.report or self._waits(task, fail):
            return
        self.failures.append((task.name, fail.get_msg()))
        self._line("failed", task.title(), self._seconds(task))

    def _waits(self, task: Any, fail: Any) -> bool:
        """Tell whether a task only waits for signatures, itself or by what it depends on."""
        wanted = getattr(fail, "waits_for", None)
        if wanted is not None:
            self.wanted.update(wanted)
            self._line("??", task.title(), self._seconds(task))
        elif not (isinstance(fail, UnmetDependency) and {*fail.message.split()} <= self.waiting):
            return False
        self.waiting.add(task.name)
        return True

    def skip_uptodate(self, task: Any) -> None:
        """Print a task that need not run."""
        if task.actions:
            self._line("--", task.title())

    def skip_ignore(self, task: Any) -> None:
        """Print a task that the user told doit to ignore."""
        self._line("!!", task.title())

    def cleanup_error(self, exception: Any) -> None:
        """Keep an error of a teardown for the end."""
        self.errors.append(exception.get_msg())

    def runtime_error(self, msg: str) -> None:
        """Keep an error of doit itself for the end."""
        self.errors.append(msg)

    def teardown_task(self, task: object) -> None:
        """No task of ours has a teardown."""

    def complete_run(self) -> None:
        """End: every failure with its reason and remedy.

        :raises SystemExit: nothing failed, and something waits for signatures.
        """
        if self.status is not None:
            events.LOGGER.removeHandler(self.status)
            self.status.close()
            texts = [*self.status.closing, *self.status.summaries.values()]
            lines = "\n".join(texts).splitlines()
            self.stream.writelines(f"    {line}\n" for line in lines)
        for name, message in self.failures:
            self.stream.write(f"\n{self._coloured('failed', name)}\n{message.strip()}\n")
        for message in self.errors:
            self.stream.write(f"\n{message.strip()}\n")
        if self.wanted:
            self.stream.write(f"\n{WaitingError.of(self.wanted).friendly()}\n")
        if self.failures and self.log is not None:
            self.stream.write(f"\nThe whole transcript is in {self.log}.\n")
        self.stream.flush()
        if self.lock is not None:
            self.lock.close()
        if self.wanted and not (self.failures or self.errors):
            raise SystemExit(WAITS)

    def _seconds(self, task: Any) -> float | None:
        return self.status.end(task.name) if self.status is not None else None

    def _line(self, mark: str, text: str, seconds: float | None = None) -> None:
        took = "" if seconds is None else f"{seconds:8.1f} s"
        shown = mark if len(mark) == 2 else "**"
        line = f"{self._coloured(mark, shown)}  {text:<{TITLE_WIDTH}}{took}".rstrip()
        if self.status is not None:
            self.status.print(line)
        else:
            self.stream.write(f"{line}\n")

    def _coloured(self, mark: str, text: str) -> str:
        return f"\033[{COLOURS[mark]}m{text}\033[0m" if self.has_colours else text
