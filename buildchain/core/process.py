"""The only door to other programs.

Every process gets an environment of our own (``C.UTF-8``, UTC, no stdin), its output goes to the
transcript line by line, and a failure carries the copy-pasteable command and the end of what it
printed.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import errno
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from buildchain.core import events
from buildchain.core.errors import BuildError, CommandError, SpaceError, ToolError

TAIL_LINES = 30
# What starting something says that is no program for this machine and user.
NO_PROGRAM = (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ELIBBAD)
FULL_DISK = re.compile(r"No space left on device|ENOSPC|Disk quota exceeded", re.IGNORECASE)
# Kept from the caller: how to reach the machine's own services, nothing that changes results.
KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR")
KEPT_PATTERN = re.compile(r"^(DOCKER_|SSL_CERT_|VAGRANT_|PIP_|.*_proxy$|.*_PROXY$)")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: predictable language, zone and file modes."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or KEPT_PATTERN.match(name)
    }
    return {**kept, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "TZ": "UTC", **(extra or {})}


def printable(argv: Sequence[str | Path]) -> str:
    """Return a command line that can be pasted into a shell."""
    return shlex.join(str(part) for part in argv)


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    solution: str = "",
    echo: bool | Callable[[str], bool] = False,
    own_group: bool = False,
) -> str:
    """Run a program to its end and return what it printed (both streams).

    :param argv: program and arguments.
    :param env: variables added to :func:`environment`.
    :param on_line: called with every line as it comes.
    :param solution: remedy of the error, when the default (read the log) is too little.
    :param echo: pass its output on to the terminal, all of it or the lines that are chosen.
    :param own_group: give it a process group, for programs that signal theirs when they fail. It
        cannot ask anything on the terminal then.
    :raises ToolError: the program does not exist.
    :raises SpaceError: it failed for want of room.
    :raises CommandError: it ended with a status other than 0, or by a signal.
    """
    words = [str(part) for part in argv]
    events.transcript(f"$ {printable(words)}")
    try:
        child = subprocess.Popen(
            words,
            cwd=cwd,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            process_group=0 if own_group else None,
        )
    except FileNotFoundError as error:
        if cwd is not None and not cwd.is_dir():
            raise
        raise ToolError(f"the program {words[0]} is not there") from error
    except OSError as error:
        if error.errno not in NO_PROGRAM:
            raise
        raise ToolError(f"{words[0]} is not a program that can be run: {error.strerror}") from error
    with _guarded_group(child.pid if own_group else None):
        output = _consume(child, on_line, _recorder(echo))
    if child.returncode:
        failed = failure(words, child.returncode, output, solution)
        if echo:
            # The terminal has it already.
            failed.details = ""
        raise failed
    return output


def hand_over(argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str]) -> None:
    """Let a program have the terminal until it ends; what is said there is not logged.

    :raises CommandError: it ended with a status other than 0.
    """
    words = [str(part) for part in argv]
    events.transcript(f"$ {printable(words)} # has the terminal")
    status = subprocess.call(words, cwd=cwd, env={**os.environ, **env})
    if status:
        failed = failure(words, status, "", "Correct what is said above.")
        failed.details = ""
        raise failed


def _recorder(echo: bool | Callable[[str], bool]) -> Callable[[str], None]:
    if not callable(echo):
        return events.echo if echo else events.transcript
    return lambda line: events.echo(line) if echo(line) else events.transcript(line)


def ask(argv: Sequence[str], question: str) -> str:
    """Return a program's answer to a question on its standard input, empty when it has none.

    Neither of them is logged: this is for secrets. The program is the user's and gets the whole
    environment.
    """
    events.transcript(f"$ {printable(argv)} # what it says is not logged")
    try:
        done = subprocess.run(argv, input=question, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ToolError(f"the program {argv[0]} cannot be run: {error.strerror}") from error
    return done.stdout if done.returncode == 0 else ""


# Process groups of their own that run now: Ctrl-C on the terminal does not reach them.
_GROUPS: set[int] = set()


@contextlib.contextmanager
def _guarded_group(group: int | None) -> Iterator[None]:
    if group is None:
        yield
        return
    _GROUPS.add(group)
    try:
        yield
    except BaseException:
        _end_group(group)
        raise
    finally:
        _GROUPS.discard(group)


def _end_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)


@atexit.register
def _end_groups() -> None:
    for group in tuple(_GROUPS):
        _end_group(group)


def detach(argv: Sequence[str], log: Path, prefix: Sequence[str] = ()) -> int:
    """Start a daemon in a session of its own: it outlives this build and its terminal.

    :param log: its output is appended there, with the rights the daemon runs with.
    :param prefix: what gives it other rights (``sudo``).
    :returns: its process id.
    :raises CommandError: the log cannot be written.
    """
    place = shlex.quote(str(log))
    command = f": >>{place} && (exec setsid {printable(argv)} >>{place} 2>&1 </dev/null & echo $!)"
    return int(run([*prefix, "sh", "-c", command]))


def lives(pid: int) -> bool:
    """Tell whether a process runs; one that ended and nobody asked after does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in {"Z", "X"}


def _consume(
    child: subprocess.Popen[str],
    on_line: Callable[[str], None] | None,
    record: Callable[[str], None],
) -> str:
    """Drain a child; it never outlives an exception here."""
    lines: list[str] = []
    assert child.stdout is not None
    try:
        for line in child.stdout:
            lines.append(line)
            record(line.rstrip())
            if on_line is not None:
                on_line(line.rstrip())
        child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    finally:
        child.stdout.close()
    return "".join(lines)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have numbers only
        return str(number)


def tail(output: str) -> str:
    """Return the end of an output, for an error."""
    return "\n".join(collections.deque(output.splitlines(), TAIL_LINES))


def failure(argv: Sequence[str], status: int, output: str, solution: str = "") -> BuildError:
    """Return the error for a program that ended badly, in words."""
    last = tail(output)
    # Its last words alone: a run of tests may name a full disk and fail for another reason.
    if FULL_DISK.search(last):
        return SpaceError(f"{argv[0]} ran out of disk space", details=last)
    how = f"exit status {status}" if status > 0 else f"signal {_signal_name(-status)}"
    failed = CommandError(
        f"{argv[0]} failed ({how}): {printable(argv)}", details=last, solution=solution
    )
    failed.status = status
    return failed
