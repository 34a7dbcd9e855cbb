"""What was begun on this machine, and whether it was ended.

On disk, a line each: the version, from the first step on; then, until the next run begins, a digest
of everything that the last one was given.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from metalk8s_bootstrap.machine import Machine
from metalk8s_bootstrap.medium import Medium

PLACE = "var/lib/metalk8s/bootstrap.version"
# The list of everything on a medium: whoever has verified it, knows the medium by it.
MANIFEST = "MANIFEST"


@dataclass(frozen=True)
class Record:
    """What the file says.

    :param version: empty when nothing was begun.
    :param given: digest of what a run was given that ended well, and was the last one.
    """

    version: str
    given: str

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in (self.version, self.given) if line)


def read(machine: Machine) -> Record:
    """Return what was recorded here."""
    version, _, given = machine.text(PLACE).strip().partition("\n")
    return Record(version, given)


def of_run(machine: Machine, medium: Medium, configuration: str) -> Record:
    """Return what is recorded when a run ends well.

    :param configuration: path of the file.
    """
    digest = hashlib.sha256()
    for content in ((medium.root / MANIFEST).read_bytes(), machine.text(configuration).encode()):
        digest.update(hashlib.sha256(content).digest())
    return Record(medium.version, digest.hexdigest())
