"""A release.

::

    _release_gate ──> iso, sources_iso, reproduce, inputs ──> release

Leaves ``_build/release``. Nothing is built before the gate has let it through; the list of the
release is signed last, when a second build elsewhere gave the same bytes. ``--dry-run`` is the gate
alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import getopt
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import events
from buildchain.core.errors import BuildError, ContentError, LockError
from buildchain.core.step import READING, Removal, Task, guarded, remove_tree, title
from buildchain.locks import steps as locks
from buildchain.medium import contents, versions
from buildchain.project import source, vulnerabilities
from buildchain.project.context import CALLED_FROM, Context, current
from buildchain.release import artefacts, changelog, gate
from buildchain.release.artefacts import Release
from buildchain.release.gate import Previous, State
from buildchain.signatures import signing
from buildchain.updates import make
from buildchain.updates.make import Image

NAME = "release"
GATE = "_release_gate"
BUILT = ("iso", "sources_iso", "reproduce", "inputs")
PARAMETERS: tuple[dict[str, object], ...] = (
    {
        "name": "dry_run",
        "long": "dry-run",
        "type": bool,
        "default": False,
        "help": "only tell what is missing, and what would be made",
    },
    {
        "name": "previous",
        "long": "previous",
        "type": str,
        "default": "",
        "help": "ISO of the release before: what is different becomes part of this one",
    },
    {
        "name": "update_from",
        "long": "update-from",
        "type": list,
        "default": [],
        "help": "ISO of an older release, its signed lists beside it: the update pack from it "
        "becomes part of this one; again for each further one",
    },
    {
        "name": "key",
        "long": "key",
        "type": list,
        "default": [],
        "help": "public key that signed those (binary), when it is another than SIGNING_KEY's; "
        "again for each further one",
    },
)


@dataclass(frozen=True)
class Options:
    """What was asked for: the graph depends on it, so it is read before doit reads it."""

    is_dry: bool = False
    previous: str = ""
    update_from: tuple[str, ...] = ()
    key: tuple[str, ...] = ()


def options_of(arguments: Sequence[str]) -> Options:
    """Return the options of ``release`` on a command line; mistakes are for doit to tell."""
    if NAME not in arguments:
        return Options()
    words = arguments[arguments.index(NAME) + 1 :]
    try:
        pairs = getopt.getopt(list(words), "", ["dry-run", "previous=", "update-from=", "key="])[0]
    except getopt.GetoptError:
        return Options(is_dry=True)
    found = dict(pairs)
    update_from, key = (
        tuple(value for name, value in pairs if name == option)
        for option in ("--update-from", "--key")
    )
    return Options("--dry-run" in found, found.get("--previous", ""), update_from, key)


def task__release_gate() -> Task:
    """Stop what would be no release, before anything is built."""
    return {
        "basename": GATE,
        "doc": "Check that a release can be made of this checkout.",
        "title": lambda _task: title("CHECK", "what a release needs"),
        "actions": [functools.partial(_open, current())],
        "io": {"capture": False},
    }


def _open(context: Context) -> object:
    """Let the build begin: what it consists of is only told to doit when nothing is in its way."""
    refused = guarded(lambda: gate.prove(state_of(context)))()
    return refused or {"task_dep": list(BUILT)}


def task_release() -> Task:
    """Make a release."""
    context = current()
    task: Task = {
        "basename": NAME,
        "doc": "Make a signed release of the tagged commit: _build/release "
        "[--dry-run] [--previous FILE.iso] [--update-from FILE.iso].",
        "title": lambda _task: title("RELEASE", context.catalog.version.full),
        "params": list(PARAMETERS),
        "io": {"capture": False},
    }
    if options_of(context.arguments).is_dry:
        return {**task, "meta": READING, "actions": [(_dry_run, [], {"context": context})]}
    clean = functools.partial(remove_tree, context.layout.release)
    return {
        **task,
        "actions": [(_make, [], {"context": context})],
        "calc_dep": [GATE],
        "clean": [Removal(str(context.layout.release), clean)],
    }


def state_of(context: Context) -> State:
    """Return all that decides whether a release can be made."""
    settings, pins = context.config, context.catalog
    git, root = settings.binary("git"), settings.root
    options = options_of(context.arguments)
    key_problem = _key_problem(context)
    return State(
        product=settings.project_name,
        version=pins.version,
        commit=versions.commit_of(git, root),
        changes=source.changes(git, root),
        signing_key=settings.signing_key,
        key_problem=key_problem,
        lock_policy=context.lock_policy,
        lock_problems=tuple(locks.problems_of(context)),
        base_image=settings.base_image,
        table=vulnerabilities.read(context.layout.pins),
        changes_text=(root / changelog.NAME).read_text(encoding="utf-8"),
        previous=_previous(options.previous) if options.previous else None,
        bases=() if key_problem else _bases(context, options),
    )


def _key_problem(context: Context) -> str:
    if context.config.signing_key:
        try:
            with signing.signer(context.layout, context.config.signing_key):
                pass
        except BuildError as error:
            return error.reason
    return ""


def _path(name: str) -> Path:
    return Path(os.environ.get(CALLED_FROM, ".")) / name


def _previous(name: str) -> Previous:
    try:
        with contents.opened(_path(name)) as medium:
            facts = contents.listed(medium).facts
    except BuildError as error:
        return Previous(name, problem=error.reason)
    return Previous(name, facts.get("name", "?"), facts.get("version", "?"))


def _bases(context: Context, options: Options) -> tuple[Previous, ...]:
    if not options.update_from:
        return ()
    with _believed(context, options) as keyrings:
        return tuple(_base(name, keyrings) for name in options.update_from)


def _base(name: str, keyrings: Sequence[Path]) -> Previous:
    try:
        file = make.find(_path(name))
        make.read(file, keyrings)
    except BuildError as error:
        return Previous(name, problem=error.reason)
    return dataclasses.replace(_previous(str(file)), path=name)


@contextlib.contextmanager
def _believed(context: Context, options: Options) -> Iterator[Sequence[Path]]:
    """Provide the public keys that have signed the older releases."""
    if options.key:
        yield [_path(name) for name in options.key]
        return
    with (
        signing.signer(context.layout, context.config.signing_key) as signer,
        # A dry run leaves the build root alone.
        tempfile.TemporaryDirectory(prefix="metalk8s-keys-") as scratch,
    ):
        folder = Path(scratch)
        files = (*signer.export(folder, signing.STEM), *signer.export_others(folder, signing.STEM))
        yield [path for path in files if path.suffix == ".gpg"]


def _dry_run(
    context: Context, dry_run: bool, previous: str, update_from: list[str], key: list[str]
) -> object:
    del dry_run, update_from, key  # the state has what is asked for

    def action() -> None:
        state = state_of(context)
        plan = artefacts.planned(
            context.layout,
            state.target,
            state.signing_key,
            is_compared=bool(previous),
            bases=[base.version for base in state.bases if not base.problem],
        )
        events.echo(f"Would make, in {context.layout.release}:")
        for name in [
            *(artefact.file for artefact in plan),
            artefacts.DESCRIPTION,
            *artefacts.LISTS,
        ]:
            events.echo(f"    {name}")
        if not previous:
            events.echo("without the difference to a release before: --previous names none")
        gate.prove(state)
        events.echo("Nothing is missing.")

    return guarded(action)()


def _make(
    context: Context, dry_run: bool, previous: str, update_from: list[str], key: list[str]
) -> object:
    del dry_run, update_from, key

    def action() -> None:
        state = state_of(context)
        # An hour has passed.
        gate.prove(state)
        _prove_built(context, state)
        release = _release(context, state, _path(previous) if previous else None)
        with signing.signer(context.layout, context.config.signing_key) as signer:
            folder = artefacts.assemble(context.layout, release, signer)
        events.closing(f"{release.product} {release.version} is in {folder}")

    return guarded(action)()


def _prove_built(context: Context, state: State) -> None:
    """Stop when what lies in the build root is not of this commit, or not as locked."""
    product = context.layout.product.read_text(encoding="utf-8")
    built = dict(line.split("=", 1) for line in product.splitlines()).get("BUILD_VERSION")
    if built != state.target:
        raise ContentError(
            f"{context.layout.product} is of version {built}, expected {state.target}: the "
            "checkout changed while it was built",
            solution="Leave the checkout alone and run ./doit.sh release again.",
        )
    rolled = locks.replaced_file(context).read_text(encoding="utf-8")
    if rolled:
        raise LockError("the build is made of packages that are not locked", details=rolled)


def _release(context: Context, state: State, previous: Path | None) -> Release:
    settings = context.config
    section = changelog.find(state.changes_text, state.target)
    assert section is not None, "the gate lets nothing through without one"
    opened = [r for r in state.table.records if r.status == vulnerabilities.OPEN]
    return Release(
        product=state.product,
        version=state.target,
        commit=state.commit.digest,
        date=source.epoch(settings.binary("git"), settings.root, settings.source_date_epoch),
        changes=changelog.page(state.product, section),
        vulnerabilities={"accepts": state.table.accepts, "open": len(opened)},
        previous=previous,
        bases=_images(context),
    )


def _images(context: Context) -> tuple[Image, ...]:
    options = options_of(context.arguments)
    if not options.update_from:
        return ()
    with _believed(context, options) as keyrings:
        return tuple(make.read(make.find(_path(name)), keyrings) for name in options.update_from)
