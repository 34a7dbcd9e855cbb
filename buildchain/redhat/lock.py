"""The lock of RPMs: ``buildchain/pins/<profile>/redhat.lock``, in the form of :mod:`.lock`.

Programs: ``rpm``. A set is for one release of EL. It stands on the names of the minimal OS, not on
their versions, and on what our own packages require: when that changes, it is resolved anew.
"""

from __future__ import annotations

import hashlib
import json
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from buildchain.core import process
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made
from buildchain.debian import lock
from buildchain.debian.lock import Locked, Origin
from buildchain.packages import rpm
from buildchain.project.model import RedhatFile
from buildchain.redhat import closure
from buildchain.redhat.closure import System


def foundation(system: System) -> str:
    """Return the identity of what a set stands on."""
    document = {
        "release": system.release,
        "minimal": sorted(system.minimal),
        "ours": sorted(_requirements(system)),
    }
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _requirements(system: System) -> set[str]:
    """Return what our packages require of others, with versions."""
    if system.ours is None:
        return set()
    folder = Path(urllib.parse.unquote(urllib.parse.urlsplit(system.ours.url).path))
    packages = sorted(folder.glob("*.rpm"))
    if not packages:
        return set()
    provides = rpm.parse_query(process.run(rpm.argv_for_query("PROVIDE", packages)))
    requires = rpm.parse_query(process.run(rpm.argv_for_requirements(packages)))
    ours = {what for _, what in provides}
    return {" ".join(what.split()) for _, what in requires if what.split(" ", 1)[0] not in ours}


def close(layout: Layout, locked: Locked, name: str, system: System, wanted: Sequence[str]) -> Made:
    """Fetch a set of RPMs, locked or as LOCK_POLICY allows, and write its list.

    :raises LockError: the policy is strict and the set is not locked, or cannot be had as locked.
    """
    entry = lock.read(locked.path, RedhatFile).get(name)
    origin = Origin[RedhatFile](
        "RPMs",
        foundation(system),
        lambda files: closure.fetch_exactly(layout, name, system, files),
        lambda names: closure.resolve(layout, name, system, names),
        lambda files, replaced: closure.list_closure(layout, name, files, replaced),
    )
    return lock.settle(locked, name, wanted, entry, origin)
