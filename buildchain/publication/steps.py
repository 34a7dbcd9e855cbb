"""The tasks that publish and fetch.

::

    _build/release (./doit.sh release) ──> publish ──> PLACE ──> fetch ──> FOLDER

Leaves what it says at the place or in the folder, and which index was seen in
``CACHE_ROOT/publication``; nothing in ``_build``.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from buildchain.core import events
from buildchain.core.errors import ConfigError
from buildchain.core.step import READING, Task, guarded, title
from buildchain.machine.steps import checks
from buildchain.project.context import CALLED_FROM, Context, current
from buildchain.publication import address, fetch, release
from buildchain.publication.index import CHANNELS
from buildchain.publication.publish import Publisher
from buildchain.publication.trust import Trust
from buildchain.signatures import signing
from buildchain.signatures.signing import Signer

PUBLISH = "./doit.sh publish --to PLACE [--channel candidate|stable]"
FETCH = "./doit.sh fetch --from PLACE -o FOLDER VERSION|CHANNEL"
KEY = {
    "name": "key",
    "long": "key",
    "type": list,
    "default": [],
    "help": "public key of who publishes (binary); again for each further one",
}


def task_publish() -> Task:
    """Put a release where others get it."""
    return {
        "basename": "publish",
        "doc": "Put the release in _build/release where others get it (--to PLACE).",
        "title": lambda _task: title("PUBLISH", "release"),
        "meta": READING,
        "actions": [functools.partial(_publish, current())],
        "pos_arg": "words",
        "params": [
            _text("to", "folder, s3://bucket/prefix, rsync://host/module or host:/path"),
            _text("channel", f"one of {', '.join(CHANNELS)}; candidate when it says nothing"),
            _text("promote", "no upload: put this version, which is there, into --channel"),
            {**_text("keep", "releases of each channel that stay"), "type": int, "default": 0},
            _switch("renew", "no upload: sign the list of releases again, with today's date"),
            _switch("dry-run", "tell what would happen, change nothing"),
            KEY,
        ],
        "task_dep": list(checks("gpg", "gpgv")),
        "io": {"capture": False},
    }


def task_fetch() -> Task:
    """Get a release and verify it."""
    return {
        "basename": "fetch",
        "doc": "Get a release, verified: --from PLACE -o FOLDER VERSION (or stable, candidate).",
        "title": lambda _task: title("FETCH", "release"),
        "meta": READING,
        "actions": [functools.partial(_fetch, current())],
        "pos_arg": "words",
        "params": [
            _text("from", "folder, s3://bucket/prefix, http[s]://host/path or as for publish"),
            {**_text("output", "folder that it gets into, whole or not at all"), "short": "o"},
            _text("at-least", "lowest version that will do"),
            _text("update-from", "only the update pack from this version, whose ISO you have"),
            {**_text("max-age", "days that the list of releases may be old"), "type": int,
             "default": 0},
            KEY,
        ],
        "task_dep": list(checks("gpgv")),
        "io": {"capture": False},
    }  # fmt: skip


def _text(name: str, help_text: str) -> dict[str, object]:
    variable = name.replace("-", "_")
    # `from` is no name that Python takes for an argument.
    variable = {"from": "origin"}.get(variable, variable)
    return {"name": variable, "long": name, "type": str, "default": "", "help": help_text}


def _switch(name: str, help_text: str) -> dict[str, object]:
    return {**_text(name, help_text), "type": bool, "default": False}


def _publish(
    context: Context, words: list[str], to: str, channel: str, promote: str, keep: int,
    renew: bool, dry_run: bool, key: list[str],
) -> object:  # fmt: skip
    def action() -> None:
        _check_publish(words, to, promote, channel, keep, renew)
        target = address.target(to, _here())
        with _signed(context, key) as (signer, keyrings):
            if signer.is_development:
                events.closing("signed by this machine's development key: nobody else has that")
            trust = Trust(keyrings, context.layout.publication)
            who = Publisher(target, trust, signer, context.layout.project, keep, dry_run)
            if promote:
                who.promote(promote, channel)
            elif renew:
                who.renew()
            else:
                folder = context.layout.release
                who.publish(folder, release.read(folder, keyrings), channel or CHANNELS[0])

    return guarded(action)()


def _check_publish(
    words: Sequence[str], to: str, promote: str, channel: str, keep: int, renew: bool
) -> None:
    for is_wrong, what in (
        (bool(words), f"publish takes no {' '.join(words)}"),
        (not to, "publish was not told where to (--to PLACE)"),
        (keep < 0, f"--keep {keep} is less than 0"),
        (bool(promote) and renew, "--promote and --renew are two things"),
        (bool(promote) and not channel, "--promote was not told into which channel (--channel)"),
    ):
        if is_wrong:
            raise ConfigError(what, solution=f"Call {PUBLISH}.")


@contextlib.contextmanager
def _signed(context: Context, key: list[str]) -> Iterator[tuple[Signer, tuple[Path, ...]]]:
    """Provide the key of this machine, and the public keys that are believed."""
    layout = context.layout
    with (
        signing.signer(layout, context.config.signing_key) as signer,
        layout.scratch("publish-") as folder,
    ):
        others = signer.export_others(Path(folder), signing.STEM)
        files = (*signer.export(Path(folder), signing.STEM), *others)
        own = (path for path in files if path.suffix == ".gpg")
        yield signer, (*own, *_keys(key))


def _fetch(
    context: Context, words: list[str], origin: str, output: str, at_least: str,
    update_from: str, max_age: int, key: list[str],
) -> object:  # fmt: skip
    def action() -> None:
        for is_wrong, what in (
            (len(words) != 1, f"fetch gets one version or channel, {len(words)} were named"),
            (not origin, "fetch was not told where from (--from PLACE)"),
            (not output, "fetch was not told where to (-o FOLDER)"),
            (max_age < 0, f"--max-age {max_age} is less than 0"),
        ):
            if is_wrong:
                raise ConfigError(what, solution=f"Call {FETCH}.")
        keyrings = _keys(key) or _own_keys(context)
        trust = Trust(keyrings, context.layout.publication)
        wish = fetch.Wish(words[0], at_least, max_age, update_from)
        folder = (_here() / Path(output).expanduser()).resolve()
        fetch.fetch(address.source(origin, _here()), trust, wish, folder)

    return guarded(action)()


def _own_keys(context: Context) -> tuple[Path, ...]:
    found = tuple(path for path in signing.keyrings(context.layout) if path.is_file())
    if not found:
        raise ConfigError(
            "fetch was not told whose releases these are",
            solution="Name the public key of who publishes: --key FILE (binary, metalk8s.gpg). It "
            "has to come another way than the releases.",
        )
    return found


def _keys(names: Sequence[str]) -> tuple[Path, ...]:
    found = tuple(_here() / Path(name).expanduser() for name in names)
    missing = [str(path) for path in found if not path.is_file()]
    if missing:
        raise ConfigError(
            f"--key {', '.join(missing)}: there is no such file",
            solution="Name files with public keys, binary as gpg --export writes them.",
        )
    return found


def _here() -> Path:
    return Path(os.environ.get(CALLED_FROM, "."))
