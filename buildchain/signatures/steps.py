"""The public keys of a build, and signatures that are made elsewhere (``SIGNING_PUBLIC_KEY``).

::

    _iso_key ──> all that signs, and ``keys/`` on the ISO
    iso ──> waits ──> sign_request ~~> sign.sh, or sign ~~> sign_import ──> iso

Every step that signs comes after ``_signatures_begin``: what a run does not ask for is not wanted.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

from buildchain.core import events
from buildchain.core.errors import ConfigError
from buildchain.core.step import READING, Step, Task, guarded, title
from buildchain.machine.steps import SIGNATURES, checks
from buildchain.project.context import CALLED_FROM, Context, current
from buildchain.signatures import answer, request, sign, signing
from buildchain.signatures.folder import Folder

KEY = "_iso_key"


def task__signatures_begin() -> Task:
    """Forget which signatures the run before wanted."""
    context = current()
    return {
        "basename": SIGNATURES,
        "doc": "Forget which signatures the run before wanted.",
        "title": lambda _task: title("FORGET", "what was to be signed before"),
        "actions": [functools.partial(_begin, context)],
        "io": {"capture": False},
    }


def _begin(context: Context) -> None:
    Folder(context.layout.signatures).begin()


def _output(text: str) -> list[dict[str, object]]:
    return [{"name": "output", "short": "o", "long": "output", "default": "", "help": text}]


def task_sign_request() -> Task:
    """Write down what is to be signed elsewhere."""
    return {
        "basename": "sign_request",
        "doc": "Write what the last build wants signed elsewhere to a tar: --output FILE.",
        "title": lambda _task: title("PACK", "what is to be signed"),
        "actions": [functools.partial(_request, current())],
        "params": _output("the tar to write"),
        "io": {"capture": False},
    }


def _here() -> Path:
    return Path(os.environ.get(CALLED_FROM, "."))


def _request(context: Context, output: str) -> object:
    def action() -> None:
        if not output:
            raise ConfigError(
                "sign_request was not told where to write",
                solution="Call ./doit.sh sign_request --output FILE.",
            )
        stem = f"{context.layout.project}-{context.catalog.version.full}-signing-request"
        for one in request.write(Folder(context.layout.signatures), _here() / output, stem):
            events.note(f"{one.what}, by {one.key}")

    return guarded(action)()


def task_sign() -> Task:
    """Sign a request with the keys of this user."""
    return {
        "basename": "sign",
        "doc": "Sign what another machine asks for (FILE) with your keys: --output ANSWER FILE.",
        "title": lambda _task: title("SIGN", "what is asked for"),
        "meta": READING,
        "actions": [_sign],
        "pos_arg": "files",
        "params": _output("the answer, a tar to write"),
        "task_dep": list(checks("gpg")),
        "io": {"capture": False},
    }


def _sign(files: list[str], output: str) -> object:
    def action() -> None:
        if len(files) != 1 or not output:
            raise ConfigError(
                "sign takes one request, and has to be told where to write the answer",
                solution="Call ./doit.sh sign --output ANSWER FILE.",
            )
        number = sign.sign(_here() / files[0], _here() / output)
        events.note(f"{number} signatures are in {output}")

    return guarded(action)()


def task_sign_import() -> Task:
    """Prove and keep signatures that were made elsewhere."""
    return {
        "basename": "sign_import",
        "doc": "Prove signatures that were made elsewhere and let builds use them: ANSWER …",
        "title": lambda _task: title("IMPORT", "signatures"),
        "actions": [functools.partial(_import, current())],
        "pos_arg": "files",
        "task_dep": list(checks("gpg", "gpgv")),
        "io": {"capture": False},
    }


def _import(context: Context, files: list[str]) -> object:
    def action() -> None:
        if not files:
            raise ConfigError(
                "sign_import takes at least one answer, none was named",
                solution="Call ./doit.sh sign_import ANSWER …",
            )
        number = import_answers(context, [_here() / file for file in files])
        events.note(f"{number} signatures are as they should be; run the build again")

    return guarded(action)()


def import_answers(context: Context, answers: list[Path]) -> int:
    """Prove and keep the signatures of answers; return how many there are.

    :raises ConfigError: the key of this build is not elsewhere.
    :raises SigningError: they are not all that is wanted, or more, or do not hold.
    """
    with signing.signer(context.layout, context.config.signing_key) as key:
        if key.elsewhere is None:
            raise ConfigError(
                "SIGNING_PUBLIC_KEY is not set, so this build takes no signatures from elsewhere",
                solution="Set it and SIGNING_KEY as for the build that wrote the request.",
            )
        return answer.accept(key.elsewhere, answers)


def task__iso_key() -> Iterator[Task]:
    """Write the public keys that check the ISO; makes a development key on first use."""
    context = current()
    introduction = context.config.key_introduction
    files = (introduction, context.layout.public_keys)
    yield Step(
        context.layout,
        KEY,
        title("EXPORT", "public key"),
        functools.partial(
            signing.export_public_key, context.layout, context.config.signing_key, introduction
        ),
        inputs=tuple(file for file in files if file is not None),
        config={"key": context.config.signing_key, "secret": str(context.layout.development_key)},
        holds=functools.partial(
            signing.is_exported_key_current,
            context.layout,
            context.config.signing_key,
            context.layout.receipt(KEY),
        ),
        after=checks("gpg"),
    ).task()
