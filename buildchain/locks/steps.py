"""What is locked, and what a build really used.

::

    lock:debian, lock:python, lock:redhat    refresh the locks of the checkout, show what changed
    lock:check                               compare them with the pins
    _debian_closure:*, _redhat_closure:* ──> _lock_record    on the ISO: what this build is made of

Leaves ``_build/lock/{debian,redhat}.lock``; the locks themselves are in
``buildchain/pins/<profile>`` and ``requirements*.txt``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.core.step import READING, Step, Task, guarded, title
from buildchain.debian import archive, base, floor, lock
from buildchain.debian import steps as debian
from buildchain.debian.lock import Entry
from buildchain.locks import check, python
from buildchain.machine.steps import checks
from buildchain.project.context import Context, current
from buildchain.project.means import Means
from buildchain.project.model import DebianFile, RedhatFile
from buildchain.redhat import closure
from buildchain.redhat import lock as redhat_lock
from buildchain.redhat import steps as redhat
from buildchain.redhat.closure import System
from buildchain.signatures import signing

RECORD = "_lock_record"


def record_file(layout: Layout) -> Path:
    """Return where the record is."""
    return layout.build / "lock" / "debian.lock"


def replaced_file(layout: Layout) -> Path:
    """Return where is listed what the build took in place of what is locked, a line each."""
    return record_file(layout).with_name("replaced.txt")


@dataclass(frozen=True)
class DebianSet:
    """A set of Debian packages of this build.

    :param status: of what it stands on; ``None``: nothing.
    :param resolved: receipt of the step that resolved it.
    """

    name: str
    wanted: tuple[str, ...]
    status: Path | None
    resolved: Path


@dataclass(frozen=True)
class RedhatSet:
    """A set of RPMs of this build.

    :param system: what it is resolved against.
    :param resolved: receipt of the step that resolved it.
    """

    name: str
    wanted: tuple[str, ...]
    system: System
    resolved: Path


@dataclass(frozen=True)
class Record:
    """What is recorded of a build.

    :param base_image: ``BASE_IMAGE``, or empty for our base.
    """

    debian: tuple[DebianSet, ...]
    redhat: tuple[RedhatSet, ...]
    base_image: str


def task__lock_record() -> Iterator[Task]:
    """Record the Debian packages that this build is made of."""
    context = current()
    yield Step(
        context.means,
        RECORD,
        title("RECORD", "packages of other people in this build"),
        _record,
        Record(
            _debian_sets(context, debian.is_shipped),
            # Where packages come from, and where ours are, is no matter of a record.
            tuple(
                replace(one, system=replace(one.system, repositories=(), ours=None))
                for one in _redhat_sets(context)
            ),
            context.config.base_image,
        ),
        # On what sets of RPMs stand follows from what our own packages require.
        needs=(redhat.SIGN,) if redhat.releases(context) else (),
        code=(archive, lock, closure, redhat_lock),
    ).task()


def _debian_sets(
    context: Context, is_wanted: Callable[[str], bool] = bool
) -> tuple[DebianSet, ...]:
    layout = context.layout
    return tuple(
        DebianSet(
            name,
            wanted,
            debian.status_below(layout, name),
            layout.receipt(debian.closure_step(name)),
        )
        for name, wanted in debian.wanted(context).items()
        if is_wanted(name)
    )


def _redhat_sets(context: Context) -> tuple[RedhatSet, ...]:
    return tuple(
        RedhatSet(
            redhat.closure_name(release),
            context.catalog.redhat_packages,
            redhat.system(context, release),
            context.layout.receipt(redhat.closure_step(release)),
        )
        for release in redhat.releases(context)
    )


def _record(wanted: Record, means: Means) -> Made:
    layout = means.layout
    output = record_file(layout)
    entries = {one.name: _entry(layout, one, wanted.base_image) for one in wanted.debian}
    lock.write(output, entries)
    outputs = [output]
    if wanted.redhat:
        outputs.append(output.with_name("redhat.lock"))
        sets = (replace(one, system=redhat.with_ours(one.system, layout)) for one in wanted.redhat)
        lock.write(outputs[-1], _redhat_entries(layout, sets))
    resolved = [(one.name, one.resolved) for one in wanted.debian]
    resolved += [(one.name, one.resolved) for one in wanted.redhat]
    replaced = [f"{name}: {line}\n" for name, path in resolved for line in _replaced(path)]
    list_file = replaced_file(layout)
    write_whole(list_file, "".join(replaced))
    return Made((*outputs, list_file))


def _redhat_entries(layout: Layout, sets: Iterable[RedhatSet]) -> dict[str, Entry[RedhatFile]]:
    return {
        one.name: Entry(
            one.wanted,
            redhat_lock.foundation(one.system),
            closure.read_closure(layout.closure(one.name)),
        )
        for one in sets
    }


def _replaced(path: Path) -> list[str]:
    found = receipt.read(path).facts.get("replaced", [])
    assert isinstance(found, list)
    return found


def _entry(layout: Layout, one: DebianSet, base_image: str) -> Entry[DebianFile]:
    on = lock.foundation(layout, one.status, base_image)
    return Entry(one.wanted, on, archive.read_closure(layout.closure(one.name)))


def task_lock() -> Iterator[Task]:
    """Refresh what is locked, show what changed."""
    context = current()
    yield {"basename": "lock", "name": None, "doc": task_lock.__doc__}
    locks = [
        ("debian", "Debian packages", _lock_debian, checks("mmdebstrap", "apt-ftparchive", "gpg")),
        ("python", "Python packages", _lock_python, ("_dev_environment",)),
    ]
    if redhat.releases(context):
        # Which RPMs of others are needed depends on what ours require.
        after = ("_iso_key", redhat.SIGN, *checks("dnf", "rpm"))
        locks.append(("redhat", "RPMs", _lock_redhat, after))
    refreshed = [f"lock:{name}" for name, *_ in locks] if "lock" in context.arguments else []
    yield {
        "basename": "lock",
        "name": "check",
        "doc": "Compare the locks with the pins; needs no network.",
        "title": lambda _task: title("CHECK", "locks"),
        "meta": READING,
        "actions": [(guarded(functools.partial(_check, context)), [])],
        "task_dep": refreshed,
        "io": {"capture": False},
    }
    for name, what, action, after in locks:
        yield {
            "basename": "lock",
            "name": name,
            "doc": f"Refresh the lock of {what}.",
            "title": functools.partial(_lock_title, what),
            "actions": [(guarded(functools.partial(action, context)), [])],
            "task_dep": list(after),
            "io": {"capture": False},
        }


def _check(context: Context) -> None:
    check.prove(problems_of(context))


def problems_of(context: Context) -> list[str]:
    """Compare every lock with what it is made for; needs no network."""
    root, pins = context.config.root, context.catalog
    minimal = {"base": debian.minimal_packages(context)}
    sets = {**minimal, **debian.wanted(context)}
    problems = check.debian_problems(debian.locked(context).path, sets)
    rpm_sets = {
        redhat.closure_name(release): pins.redhat_packages for release in redhat.releases(context)
    }
    problems += check.redhat_problems(redhat.locked(context).path, rpm_sets)
    for name in ("requirements", "requirements-dev", "salt/requirements"):
        problems += check.python_problems(root / f"{name}.in", root / f"{name}.txt")
    for package in pins.packages:
        if package.wheels:
            path = context.layout.package_sources(package.name) / package.wheels
            problems += check.wheel_problems(path)
    return problems


def _lock_title(what: str, _task: object) -> str:
    return title("LOCK", what)


def _lock_python(context: Context) -> None:
    for source in ("requirements", "requirements-dev"):
        python.lock(context.config.root, source)


def _lock_redhat(context: Context) -> None:
    """Resolve the set of every major version anew, beside the build."""
    layout = replace(context.layout, build=context.layout.temporary / "lock-redhat")
    sets = _redhat_sets(context)
    for one in sets:
        files = closure.resolve(layout, one.name, one.system, one.wanted)
        closure.list_closure(layout, one.name, files, ())
    lock.refresh(redhat.locked(context), _redhat_entries(layout, sets), RedhatFile)


def _lock_debian(context: Context) -> None:
    """Resolve every set anew, beside the build: base and floor first, then what stands on them."""
    layout = replace(context.layout, build=context.layout.temporary / "lock")
    layout.build.mkdir(parents=True)
    archive.refresh(layout, debian.indexes(context))
    minimal = {floor.BASE: debian.minimal_packages(context), floor.NAME: floor.PACKAGES}
    entries = {}

    def resolve(name: str, packages: tuple[str, ...]) -> None:
        status = debian.status_below(layout, name)
        files = archive.resolve(layout, name, packages, status)
        archive.list_closure(layout, name, files, ())
        entries[name] = _entry(
            layout, DebianSet(name, packages, status, Path()), context.config.base_image
        )

    for name, packages in minimal.items():
        resolve(name, packages)
    floor.make_status(layout)
    with signing.local_signer(context.layout, context.config.signing_key) as signer:
        base.make_base(layout, context.catalog.base_packages, context.content, signer)
    for name, packages in debian.closures(context).items():
        resolve(name, packages)
    lock.refresh(debian.locked(context), entries, DebianFile)
