"""What steps really use: the files they open and the code of ours they run.

What Python opens is seen, not what a program opens that it starts.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from buildchain.core import receipt
from buildchain.core.step import AnyStep, Step

# Its libraries call millions of functions; test_code_of_steps.py reads it instead.
TOO_MANY_CALLS = ("_iso_bill",)
WRITES = os.O_WRONLY | os.O_RDWR
CODE = f"{os.sep}buildchain{os.sep}"


@dataclass
class Watch:
    """What each step of a run used.

    :param steps: that were executed, by name.
    :param opened: files that were read.
    :param ran: files of the functions that were called.
    """

    steps: dict[str, AnyStep] = field(default_factory=dict)
    opened: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ran: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    current: str = ""

    def undeclared_files(self, step: AnyStep) -> set[str]:
        """Return the files of the checkout that a step read and is no function of."""
        layout, declared = step.layout, set(map(str, step.inputs()))
        made = (f"{layout.build}/", f"{layout.cache}/")
        return {
            path
            for path in self.opened[step.name] - declared
            if path.startswith(f"{layout.root}/") and not path.startswith(made)
        }

    def undeclared_outputs(self, step: AnyStep) -> set[str]:
        """Return the outputs of other steps that a step read, and has no receipt of."""
        layout, declared = step.layout, set(step.inputs())
        known = {step.receipt, *declared}
        found = set()
        for name in self.steps:
            path = layout.receipt(name)
            if path not in known:
                outputs = {str(layout.build / o.path) for o in receipt.read(path).outputs}
                found |= {f"{name}: {o}" for o in (outputs | {str(path)}) & self.opened[step.name]}
        return found

    def code(self, step: AnyStep) -> set[str]:
        """Return the modules of ours that a step ran."""
        return {
            path[path.rindex(CODE) + 1 :].removesuffix(".py").replace(os.sep, ".")
            for path in self.ran[step.name]
            if CODE in path
        }

    def undeclared_code(self, step: AnyStep) -> set[str]:
        """Return the modules of ours that a step ran, and does not hash."""
        declared = {str(path)[str(path).rindex(CODE) + 1 :] for path in step.sources()}
        names = {path.removesuffix(".py").replace(os.sep, ".") for path in declared}
        return self.code(step) - names


_WATCHES: list[Watch] = []


def _on_event(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _WATCHES and _WATCHES[-1].current:
        path, _, flags = arguments
        if isinstance(path, str | os.PathLike) and not int(flags or 0) & WRITES:  # type: ignore[call-overload]
            _WATCHES[-1].opened[_WATCHES[-1].current].add(os.fspath(path))


@contextlib.contextmanager
def steps() -> Iterator[Watch]:
    """Watch the steps of a run in this process, one after the other."""
    watch = Watch()
    execute = Step._execute

    def watched(self: AnyStep) -> None:
        watch.steps[self.name], watch.current = self, self.name
        ran = watch.ran[self.name]

        def on_call(frame, event, _argument):
            if event == "call" and frame.f_code.co_name != "<module>":
                ran.add(frame.f_code.co_filename)

        if self.name not in TOO_MANY_CALLS:
            sys.setprofile(on_call)
        try:
            execute(self)
        finally:
            sys.setprofile(None)
            watch.current = ""

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Step, "_execute", watched)
        if not _WATCHES:  # it cannot be taken away again
            sys.addaudithook(_on_event)
        _WATCHES.append(watch)
        yield watch


def relative(paths: set[str], root: Path) -> list[str]:
    """Return paths as they are below a folder, sorted."""
    return sorted(path.removeprefix(f"{root}/") for path in paths)
