"""Where an ISO comes from: an in-toto statement (v1) with SLSA provenance (v1), signed.

On disk, beside the ISO: ``provenance.json`` and ``provenance.json.sig``. Its materials are the
commit and every locked input; nothing in it is of this machine or moment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.receipt import Made, write_whole
from buildchain.signatures.signing import Signer

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
# Names, no places: nothing is there.
BUILD_TYPE = "https://metalk8s.invalid/build/v1"
BUILDER = "https://metalk8s.invalid/buildchain"
COMMIT = re.compile(r"[0-9a-f]{40,64}")
NAME = "provenance.json"


@dataclass(frozen=True)
class Origin:
    """What an ISO was made of.

    :param commit: of the repository, in full; anything else is only said by name.
    :param description: name of the commit, ``-dirty`` when files differ from it.
    :param parameters: settings that decide what comes out.
    :param inputs: SHA-256 of everything fetched, with its file name.
    """

    commit: str
    description: str
    parameters: Mapping[str, object]
    inputs: Mapping[str, str]


def statement(name: str, digest: str, origin: Origin) -> str:
    """Return the statement about a file with this SHA-256."""
    source: dict[str, object] = {"name": f"commit {origin.description}"}
    # Files that differ from the commit are in nobody's repository: the digest would be untrue.
    if COMMIT.fullmatch(origin.commit) and not origin.description.endswith("-dirty"):
        source["digest"] = {"gitCommit": origin.commit}
    fetched = [
        {"name": what, "digest": {"sha256": sha256}}
        for sha256, what in sorted(origin.inputs.items(), key=lambda item: (item[1], item[0]))
    ]
    document = {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": dict(origin.parameters),
                "resolvedDependencies": [source, *fetched],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def write(image: Path, digest: str, origin: Origin, signer: Signer, epoch: int) -> Made:
    """Write the statement about an image beside it, and its signature."""
    path = image.with_name(NAME)
    write_whole(path, statement(image.name, digest, origin))
    signature = signer.sign(path, path.with_name(f"{NAME}.sig"), epoch=epoch, by_all=True)
    return Made((path, signature))
