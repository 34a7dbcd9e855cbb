"""What is locked, and what a build really used.

::

    lock:debian, lock:python, lock:redhat    refresh the locks of the checkout, show what changed
    lock:check                               compare them with the pins
    _debian_closure:*, _redhat_closure:* ──> _lock_record    on the ISO: what this build is made of

Leaves ``_build/lock/{debian,redhat}.lock``; the locks themselves are in
``buildchain/pins/<profile>`` and ``requirements*.txt``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
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
from buildchain.project.model import DebianFile, RedhatFile
from buildchain.redhat import closure
from buildchain.redhat import lock as redhat_lock
from buildchain.redhat import steps as redhat
from buildchain.signatures import signing

RECORD = "_lock_record"


def record_file(context: Context) -> Path:
    """Return where the record is."""
    return context.layout.build / "lock" / "debian.lock"


def replaced_file(context: Context) -> Path:
    """Return where is listed what the build took in place of what is locked, a line each."""
    return record_file(context).with_name("replaced.txt")


def task__lock_record() -> Iterator[Task]:
    """Record the Debian packages that this build is made of."""
    context = current()
    names = list(filter(debian.is_shipped, debian.wanted(context)))
    releases = redhat.releases(context)
    yield Step(
        context.layout,
        RECORD,
        title("RECORD", "packages of other people in this build"),
        functools.partial(_record, context, tuple(names)),
        needs=(
            *(debian.closure_step(name) for name in names),
            *map(redhat.closure_step, releases),
        ),
        config={"names": names, "releases": releases},
        code=(archive, lock, closure, redhat_lock),
    ).task()


def _record(context: Context, names: tuple[str, ...]) -> Made:
    layout, output = context.layout, record_file(context)
    wanted = debian.wanted(context)
    lock.write(output, {name: _entry(context, layout, name, wanted[name]) for name in names})
    replaced = [
        f"{name}: {line}\n"
        for name in names
        for line in _replaced(layout.receipt(debian.closure_step(name)))
    ]
    outputs = [output]
    if redhat.releases(context):
        outputs.append(output.with_name("redhat.lock"))
        lock.write(outputs[-1], _redhat_entries(context, layout))
        replaced += [
            f"{redhat.closure_name(release)}: {line}\n"
            for release in redhat.releases(context)
            for line in _replaced(layout.receipt(redhat.closure_step(release)))
        ]
    list_file = replaced_file(context)
    write_whole(list_file, "".join(replaced))
    return Made((*outputs, list_file))


def _redhat_entries(context: Context, layout: Layout) -> dict[str, Entry[RedhatFile]]:
    return {
        redhat.closure_name(release): Entry(
            context.catalog.redhat_packages,
            redhat_lock.foundation(redhat.system(context, release)),
            closure.read_closure(layout.closure(redhat.closure_name(release))),
        )
        for release in redhat.releases(context)
    }


def _replaced(path: Path) -> list[str]:
    found = receipt.read(path).facts.get("replaced", [])
    assert isinstance(found, list)
    return found


def _entry(
    context: Context, layout: Layout, name: str, wanted: tuple[str, ...]
) -> Entry[DebianFile]:
    status = debian.status_below(layout, name)
    on = lock.foundation(layout, status, context.config.base_image)
    return Entry(wanted, on, archive.read_closure(layout.closure(name)))


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
    layout = dataclasses.replace(context.layout, build=context.layout.temporary / "lock-redhat")
    for release in redhat.releases(context):
        name, system = redhat.closure_name(release), redhat.system(context, release)
        files = closure.resolve(layout, name, system, context.catalog.redhat_packages)
        closure.list_closure(layout, name, files, ())
    lock.refresh(redhat.locked(context), _redhat_entries(context, layout), RedhatFile)


def _lock_debian(context: Context) -> None:
    """Resolve every set anew, beside the build: base and floor first, then what stands on them."""
    layout = dataclasses.replace(context.layout, build=context.layout.temporary / "lock")
    layout.build.mkdir(parents=True)
    pins = context.catalog
    archive.refresh(layout, pins)
    minimal = {"base": debian.minimal_packages(context), floor.NAME: floor.PACKAGES}
    for name, packages in minimal.items():
        archive.list_closure(layout, name, archive.resolve(layout, name, packages), ())
    floor.make_status(layout)
    with signing.local_signer(context.layout, context.config.signing_key) as signer:
        base.make_base(layout, pins.base_packages, context.content, signer)
    entries = {name: _entry(context, layout, name, names) for name, names in minimal.items()}
    for name, packages in debian.closures(context).items():
        files = archive.resolve(layout, name, packages, debian.status_below(layout, name))
        archive.list_closure(layout, name, files, ())
        entries[name] = _entry(context, layout, name, packages)
    lock.refresh(debian.locked(context), entries, DebianFile)
