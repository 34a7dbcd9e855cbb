"""The answer: read, judged, and kept whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from buildchain.core.errors import SigningError
from buildchain.signatures import parcel, proof
from buildchain.signatures.elsewhere import Elsewhere
from buildchain.signatures.request import ANSWERS
from buildchain.signatures.wanted import Wanted


def accept(elsewhere: Elsewhere, answers: Sequence[Path]) -> int:
    """Prove what came back and keep it; return how many signatures that are.

    :param answers: tars, one of each holder of keys; together they answer all that is wanted.
    :raises SigningError: naming everything that is missing, unknown or does not hold. Nothing is
        kept then.
    """
    wanted = {one.identity: one for one in elsewhere.folder.wanted()}
    if not wanted:
        raise SigningError(
            "no step waits for a signature",
            solution="Build first, with SIGNING_PUBLIC_KEY: answers are to what that build asked.",
        )
    brought, problems = _brought(answers, wanted)
    missing = [one for name, one in wanted.items() if name not in brought]
    problems += [f"missing: {one.what}, by {one.key}" for one in missing]
    proven: dict[str, bytes] = {}
    for name, content in brought.items():
        one = wanted[name]
        signed = elsewhere.folder.content(one)
        proven[name], complaint = proof.accept(one, signed, content, elsewhere.ring)
        if complaint:
            problems.append(f"the signature of {one.what} by {one.key} {complaint}")
    if problems:
        raise SigningError(
            f"{', '.join(map(str, answers))}: nothing was imported; " + "; ".join(problems),
            solution="Import together the answers of all holders of keys to the last request "
            "(./doit.sh sign_request writes it again).",
        )
    elsewhere.folder.add(proven)
    return len(proven)


def _brought(
    answers: Sequence[Path], wanted: Mapping[str, Wanted]
) -> tuple[dict[str, bytes], list[str]]:
    """Return what was asked for, by identity, and what is wrong with the rest."""
    found: dict[str, bytes] = {}
    problems = []
    prefix = f"{ANSWERS}/"
    for path in answers:
        for name, content in parcel.unpack(path).items():
            identity = name.removeprefix(prefix)
            if not name.startswith(prefix) or identity not in wanted:
                problems.append(f"nobody asked for {name!r}")
            else:
                found[identity] = content
    return found, problems
