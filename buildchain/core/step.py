"""A step: declared inputs, one action, one receipt.

::

    record   ─┐
    its files ┼─> up to date? ── no ──> tools checked > action(record, means) > outputs hashed >
    receipts ─┤        │                                                                 receipt
    code     ─┘        └─ yes: nothing is executed, nothing is read
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import shutil
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Generic, Protocol, TypeVar

from buildchain.core import events, receipt, record
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


class Means(Protocol):
    """What actions work with; nothing of it decides what comes out, so nothing of it is hashed."""

    @property
    def layout(self) -> Layout: ...


Record = TypeVar("Record")
MeansT = TypeVar("MeansT", bound=Means)


@dataclass(frozen=True)
class Step(Generic[Record, MeansT]):
    """One private task of the graph.

    :param name: full name in doit, ``_area_verb:item``.
    :param title: verb and subject, aligned by the reporter.
    :param action: function of a module, which knows nothing but what it is told: the record, and
        the means to do it with.
    :param record: all that decides what comes out, see :mod:`buildchain.core.record`.
    :param needs: names of the steps whose receipts are inputs.
    :param products: files it is known to leave, shown by `info` and usable as names on the
        command line; the receipt names all of them.
    :param code: modules of other rooms whose source decides what comes out, too: a change of theirs
        makes it anew, as one of the room does that the action stands in.
    :param after: tasks that must come first without being inputs (tool checks).
    :param owns: folder that nobody else writes to; `clean` removes it with all that is in it.
    :param holds: tells whether what was made still fits the world outside the build root.
    """

    means: MeansT
    name: str
    title: str
    action: Callable[[Record, MeansT], Made]
    record: Record
    needs: tuple[str, ...] = ()
    products: tuple[Path, ...] = ()
    code: tuple[ModuleType, ...] = ()
    after: tuple[str, ...] = ()
    owns: Path | None = None
    holds: Callable[[], bool] | None = None
    doc: str = ""

    def __post_init__(self) -> None:
        if not _is_plain(self.action):
            raise TypeError(
                f"the action of {self.name} has to be a function of a module: {self.action!r} "
                "may know what it was not told"
            )

    @property
    def layout(self) -> Layout:
        return self.means.layout

    @property
    def receipt(self) -> Path:
        return self.layout.receipt(self.name)

    def told(self) -> str:
        """Return what stands for the record."""
        return record.text(self.record, self.layout)

    def inputs(self) -> tuple[Path, ...]:
        """Return every file whose content decides what comes out.

        :raises TypeError: the record has what no step can be told.
        """
        try:
            files = record.files(self.record, self.layout)
        except TypeError as error:
            raise TypeError(f"record of {self.name}: {error}") from error
        receipts = (self.layout.receipt(name) for name in self.needs)
        return tuple(dict.fromkeys((*files, *self.sources(), *receipts)))

    def task(self) -> Task:
        """Return the dictionary doit wants."""
        basename, _, item = self.name.partition(":")
        uptodate: list[object] = [Fingerprint("record", self.told)]
        if self.holds is not None:
            uptodate.append(self.holds)
        uptodate.append(Completeness(self.receipt, self.layout.build))
        return {
            "basename": basename,
            **({"name": item} if item else {}),
            "doc": self.doc or self.title,
            "title": lambda _task: self.title,
            "actions": [(guarded(self._execute), [])],
            "file_dep": list(self.inputs()),
            "targets": [*self.products, self.receipt],
            "task_dep": list(self.after),
            "uptodate": uptodate,
            "clean": self.cleaning(),
            "io": {"capture": False},
        }

    def sources(self) -> tuple[Path, ...]:
        """Return the files of the code that decides what comes out."""
        room = self.action.__module__.rpartition(".")[0]
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

    def make(self) -> Made:
        """Do it, whether or not it is up to date; no receipt is written."""
        return self.action(self.record, self.means)

    def _execute(self) -> None:
        # A receipt never vouches for outputs that are being replaced.
        self.receipt.unlink(missing_ok=True)
        receipt.write(self.receipt, self.layout.build, self.make())


AnyStep = Step[Any, Any]


def _is_plain(action: object) -> bool:
    """Tell whether a callable has nothing with it: no closure, no bound arguments, no defaults."""
    return (
        isinstance(action, FunctionType)
        and "<" not in action.__qualname__  # <locals>, <lambda>
        and not action.__closure__
        and not action.__defaults__
        and not action.__kwdefaults__
    )


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


def group(name: str, doc: str, steps: Iterable[AnyStep], *, after: tuple[str, ...] = ()) -> Task:
    """Return a public task that stands for several steps and can be cleaned by itself."""
    members = tuple(steps)
    return {
        "basename": name,
        "doc": doc,
        "actions": None,
        "task_dep": [*after, *(step.name for step in members)],
        "clean": [action for step in members for action in step.cleaning()],
    }
