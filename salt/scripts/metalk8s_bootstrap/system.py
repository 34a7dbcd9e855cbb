"""How a run changes the machine: programs, files, the lock. Everything goes through here."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from metalk8s_bootstrap import folders
from metalk8s_bootstrap.progress import Progress

# Nothing of the caller's: neither a proxy nor the libraries of a Python from the medium.
ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
PAUSE = 0.5  # seconds between two looks at the lock
TAIL = 4000  # characters


class StepError(Exception):
    """A step failed; the text is a sentence for the operator."""


class LockedError(Exception):
    """Another run is at it, or a program that a killed one left."""


@dataclass
class System:
    """The machine below ``root``, and what keeps two runs from changing it at once."""

    root: Path
    progress: Progress
    lock: int
    tail: str = field(default="")

    def path(self, name: str) -> Path:
        """Return the file that a path of the machine means."""
        return self.root / name.lstrip("/")

    def run(self, argv: Sequence[str], *, sentence: str, statuses: Sequence[int] = (0,)) -> str:
        """Run a program, its output in the log; return its standard output.

        It holds the lock, too: a next run waits for what a killed one left running.

        :param sentence: what failed, if it does.
        :raises StepError: it ended with another status.
        """
        process = self.start(argv, sentence=sentence, stdin=subprocess.DEVNULL)
        with process:
            try:
                output = self._collect(process)
            except KeyboardInterrupt:
                # A terminal tells it, too; a signal to this process alone does not.
                process.terminate()
                process.wait()
                raise
        if process.returncode not in statuses:
            last = self.tail.strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
            raise StepError(f"{sentence}: {last[0]}")
        return output

    def start(self, argv: Sequence[str], *, sentence: str, stdin: int) -> subprocess.Popen[bytes]:
        """Start a program whose output comes through pipes; it holds the lock, too.

        :param stdin: what ``Popen`` takes for it.
        :raises StepError: it cannot be started.
        """
        self.progress.note(f"$ {' '.join(argv)}")
        try:
            return subprocess.Popen(
                argv,
                bufsize=0,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=ENVIRONMENT,
                pass_fds=(self.lock,),
            )
        except OSError as error:
            raise StepError(f"{sentence}: {argv[0]}: {error.strerror}") from error

    def _collect(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout
        assert process.stderr
        self.tail, output = "", []
        with selectors.DefaultSelector() as selector:
            for stream in (process.stdout, process.stderr):
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        selector.unregister(key.fileobj)
                        continue
                    self.heard(data.decode("utf-8", "replace"))
                    if key.fileobj is process.stdout:
                        output.append(data)
        return b"".join(output).decode("utf-8", "replace")

    def heard(self, text: str) -> None:
        """Take what a program says into the log; the last of it is ``tail``."""
        self.progress.output(text)
        self.tail = (self.tail + text)[-TAIL:]

    def write(self, name: str, text: str, mode: int = 0o644) -> bool:
        """Write a file whole, unless it says that already; tell whether it was written."""
        path = self.path(name)
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return False
        folders.make(path.parent)
        beside = path.with_name(f".{path.name}.new")
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
        # The name, too, is on the disk before anything goes on from it.
        folders.synchronise(path.parent)
        self.progress.note(f"wrote {name}")
        return True


@contextlib.contextmanager
def locked(path: Path, patience: float) -> Iterator[int]:
    """Hold a lock, as long as a process has what it gives: also a child that outlives this one.

    :param patience: seconds to wait for another one.
    :raises LockedError: the other one is still at it.
    """
    folders.make(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise LockedError(path) from None
                time.sleep(PAUSE)
        yield descriptor
    finally:
        os.close(descriptor)
