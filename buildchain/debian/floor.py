"""The floor: what every Debian machine has, and so all that packages of ours may count on.

It is what the archive calls essential or of priority ``required``, with all it depends on, and
nothing else: what an installer or a cloud's image brings besides differs between machines.

Programs: ``dpkg-deb``. On disk: ``_build/floor/status``, a status file of dpkg (dpkg-query(1)) in
which exactly these are installed.
"""

from __future__ import annotations

from buildchain.core import process
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.debian import apt, archive
from buildchain.store.blobs import Store

# Sets of Debian packages: this one, what images stand on, and what machines install.
NAME, BASE, NODE = "floor", "base", "node"
FIELD = "Package: "
# Of the archive's indexes, not of the packages themselves: the archive overrides their priorities.
# usrmerge, which brings Perl, and usr-is-merged satisfy the same dependency; debootstrap takes the
# second, Debian's installer the first. Whoever installs our packages has APT.
PACKAGES = (
    "?essential",
    "?and(?priority(required),?not(?exact-name(usrmerge)))",
    "usr-is-merged",
    "apt",
)


def below(name: str) -> str:
    """Return the set that another one is resolved on; empty when it stands by itself."""
    if name in (NAME, BASE):
        return ""
    return NAME if name == NODE else BASE


def make_status(layout: Layout) -> Made:
    """Write the status file of a machine that has the floor alone."""
    store = Store(layout.store)
    paragraphs = [
        process.run(apt.argv_for_control(store.path(file.sha256)))
        for file in archive.read_closure(layout.closure(NAME))
    ]
    write_whole(layout.floor_status, "\n".join(map(apt.installed, paragraphs)))
    return Made((layout.floor_status,), {"packages": len(paragraphs)})


def names(layout: Layout) -> tuple[str, ...]:
    """Return the packages that a machine with the floor alone has."""
    lines = layout.floor_status.read_text(encoding="utf-8").splitlines()
    return tuple(line.removeprefix(FIELD) for line in lines if line.startswith(FIELD))
