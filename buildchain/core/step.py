"""A step: declared inputs, one action, one receipt.

::

    file inputs ─┐
    receipts    ─┼─> up to date? ── no ──> tools checked > action > outputs hashed > receipt
    config      ─┘        └─ yes: nothing is executed, nothing is read
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from buildchain.core import events, receipt
from buildchain.core.errors import BuildError, SpaceError, WaitingError
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made

Task = dict[str, Any]
# What tasks say that write nothing below the build root: they may run beside a build.
READING = {"reads": True}
FULL = (errno.ENOSPC, errno.EDQUOT)
PACKAGE = "buildchain"  # its folders are the rooms
VERB_WIDTH = 14  # columns of a title's verb


def title(verb: str, subject: str) -> str:
    """Return an aligned title: what is done, to what."""
    return f"{verb:<{VERB_WIDTH}} {subject}"


def is_reading(meta: Mapping[str, object] | None) -> bool:
    """Tell whether a task's ``meta`` says that it only reads."""
    return bool(meta and meta.get("reads"))


@dataclass(frozen=True)
class Step:
    """One private task of the graph.

    :param name: full name in doit, ``_area_verb:item``.
    :param title: verb and subject, aligned by the reporter.
    :param inputs: files whose content matters.
    :param needs: names of the steps whose receipts are inputs.
    :param products: files it is known to leave, shown by `info` and usable as names on the
        command line; the receipt names all of them.
    :param config: anything else that matters (pins, argument lists), as JSON.
    :param code: modules of other rooms whose source decides what comes out, too: a change of theirs
        makes it anew, as one of the room does that the action stands in.
    :param after: tasks that must come first without being inputs (tool checks).
    :param fingerprint: computed when the step is considered, for what is costly to know (git).
    :param owns: folder that nobody else writes to; `clean` removes it with all that is in it.
    :param holds: tells whether what was made still fits the world outside the build root.
    :param keep: takes :meth:`identity` and the action, and returns what the action would make.
    """

    layout: Layout
    name: str
    title: str
    action: Callable[[], Made]
    inputs: tuple[Path, ...] = ()
    needs: tuple[str, ...] = ()
    products: tuple[Path, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    code: tuple[ModuleType, ...] = ()
    after: tuple[str, ...] = ()
    fingerprint: Callable[[], object] | None = None
    owns: Path | None = None
    holds: Callable[[], bool] | None = None
    keep: Callable[[str, Callable[[], Made]], Made] | None = None
    doc: str = ""

    @property
    def receipt(self) -> Path:
        return self.layout.receipt(self.name)

    def task(self) -> Task:
        """Return the dictionary doit wants."""
        basename, _, item = self.name.partition(":")
        uptodate: list[object] = [Fingerprint("config", lambda: self.config)]
        if self.fingerprint is not None:
            uptodate.append(Fingerprint("fingerprint", self.fingerprint))
        if self.holds is not None:
            uptodate.append(self.holds)
        uptodate.append(Completeness(self.receipt, self.layout.build))
        return {
            "basename": basename,
            **({"name": item} if item else {}),
            "doc": self.doc or self.title,
            "title": lambda _task: self.title,
            "actions": [(guarded(self._execute), [])],
            "file_dep": [
                *self.inputs,
                *self.sources(),
                *(self.layout.receipt(name) for name in self.needs),
            ],
            "targets": [*self.products, self.receipt],
            "task_dep": list(self.after),
            "uptodate": uptodate,
            "clean": self.cleaning(),
            "io": {"capture": False},
        }

    def sources(self) -> tuple[Path, ...]:
        """Return the files of the code that decides what comes out."""
        room = _package_of(self.action)
        others = (Path(module.__file__) for module in self.code if module.__file__)
        if not room.startswith(f"{PACKAGE}."):
            return tuple(others)
        return (*files_of_room(self.layout.root.joinpath(*room.split("."))), *others)

    def cleaning(self) -> list[object]:
        """Return the actions that remove what the step made."""
        outputs = functools.partial(clean, self.layout, (self.receipt,))
        actions: list[object] = [Removal(f"outputs of {self.name}", outputs)]
        if self.owns is not None:
            folder = functools.partial(remove_tree, self.owns)
            actions.append(Removal(str(self.owns), folder))
        return actions

    def _execute(self) -> None:
        # A receipt never vouches for outputs that are being replaced.
        self.receipt.unlink(missing_ok=True)
        made = self.action() if self.keep is None else self.keep(self.identity(), self.action)
        receipt.write(self.receipt, self.layout.build, made)

    def identity(self) -> str:
        """Return 64 digits for all that decides what the step makes, in any checkout.

        Any code of the build counts: ``code`` may have forgotten some (docs/adr/0047).
        """
        root = self.layout.root
        code = sorted((root / PACKAGE).rglob("*.py"))
        files = [_identity_of(file, root) for file in (*code, *self.inputs)]
        needs = [receipt.read(self.layout.receipt(name)) for name in self.needs]
        parts = [self.name, self.config, files, needs]
        words = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(words.encode()).hexdigest()


def _identity_of(file: Path, root: Path) -> tuple[str, str, bool]:
    status = file.stat()
    digest = _known_sha256(file, status.st_size, status.st_mtime_ns)
    return os.path.relpath(file, root), digest, os.access(file, os.X_OK)


@functools.cache
def _known_sha256(file: Path, _size: int, _mtime_ns: int) -> str:
    """Return the SHA-256 of a file that many steps name."""
    return receipt.sha256(file)


def _package_of(action: Callable[[], object]) -> str:
    function: Any = action
    while isinstance(function, functools.partial):
        function = function.func
    return str(function.__module__).rpartition(".")[0]


@functools.cache
def files_of_room(room: Path) -> tuple[Path, ...]:
    """Return the modules of a room; what else lies there is no code."""
    return tuple(sorted(room.glob("*.py")))


class Fingerprint:
    """A doit ``uptodate`` callable: unchanged since the last successful run."""

    def __init__(self, key: str, compute: Callable[[], object]) -> None:
        self.key = key
        self.compute = compute

    def __repr__(self) -> str:
        return f"{self.key} is as in the last successful run"

    def __call__(self, task: Any, values: Mapping[str, object]) -> bool:
        current = json.dumps(self.compute(), sort_keys=True, default=str)
        task.value_savers.append(lambda: {self.key: current})
        return values.get(self.key) == current


class Completeness:
    """A doit ``uptodate`` callable: everything the receipt names is there."""

    def __init__(self, path: Path, build_root: Path) -> None:
        self.path = path
        self.build_root = build_root

    def __repr__(self) -> str:
        return "outputs are complete"

    def __call__(self) -> bool:
        return receipt.is_complete(self.path, self.build_root)


class Removal:
    """A clean action that doit announces in words."""

    def __init__(self, what: str, remove: Callable[..., None]) -> None:
        self.what = what
        self.remove = remove

    def __str__(self) -> str:
        # doit drops the first character and what follows " at ", meant for <function … at 0x…>.
        return f"<removal of {self.what} at"

    def __call__(self, dryrun: bool) -> None:
        self.remove(dryrun=dryrun)


def guarded(action: Callable[[], object]) -> Callable[[], object]:
    """Translate: a :class:`BuildError` fails the task in words, anything else is a bug."""

    @functools.wraps(action)
    def call() -> object:
        # doit's failure class, imported late: `list` needs none of the runner.
        from doit.exceptions import TaskFailed

        try:
            action()
        except WaitingError as error:
            waiting = TaskFailed(error.friendly())
            # The reporter's: such a step has not failed.
            waiting.waits_for = error.wanted
            return waiting
        except BuildError as error:
            return TaskFailed(error.friendly())
        except OSError as error:
            events.transcript(traceback.format_exc())
            if error.errno not in FULL:
                raise
            full = SpaceError(f"no space left for {error.filename or 'the build tree'}")
            return TaskFailed(full.friendly())
        return None

    return call


def clean(layout: Layout, receipts: Iterable[Path], dryrun: bool) -> None:
    """Remove what receipts name, then the receipts; leave no empty folder."""
    for path in receipts:
        try:
            outputs = receipt.read(path).outputs
        except (OSError, ValueError):
            outputs = ()
        existing = [layout.build / output.path for output in outputs]
        for file in [*existing, path]:
            if file.is_symlink() or file.exists():
                print(f"removing {file}")
                if not dryrun:
                    _remove(file, layout.build)


def remove_tree(folder: Path, dryrun: bool) -> None:
    """Remove a folder that no receipt describes."""
    if folder.exists():
        print(f"removing {folder}")
        if not dryrun:
            shutil.rmtree(folder)
            with contextlib.suppress(OSError):
                folder.parent.rmdir()


def _remove(file: Path, build_root: Path) -> None:
    file.unlink(missing_ok=True)
    for parent in file.parents:
        if parent == build_root.parent or any(parent.iterdir()):
            return
        parent.rmdir()


def group(name: str, doc: str, steps: Iterable[Step], *, after: tuple[str, ...] = ()) -> Task:
    """Return a public task that stands for several steps and can be cleaned by itself."""
    members = tuple(steps)
    return {
        "basename": name,
        "doc": doc,
        "actions": None,
        "task_dep": [*after, *(step.name for step in members)],
        "clean": [action for step in members for action in step.cleaning()],
    }
