"""A second build of the same commit in another place, compared with the first byte for byte.

Programs: ``git``, ``./doit.sh``, and ``diffoscope`` where it is installed. On disk: a clone and its
build root in ``_build/reproduce``, gone at the next try. What the machine could let in is changed:
path, time zone, file modes, number of workers, and the compiler's cache, which is empty.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from buildchain.core import events, listing, process, roots
from buildchain.core.errors import CommandError, ConfigError, ContentError
from buildchain.core.layout import Layout
from buildchain.medium import iso
from buildchain.project import git, source
from buildchain.signatures.folder import Folder

SHOWN = 10  # differing files that are named, and explained
EXPLAINED_LINES = 40
IMAGE_MANIFEST = "manifest.json"


def rebuild(layout: Layout, git_binary: str, environment: Mapping[str, str]) -> Path:
    """Clone the checkout, build its ISO and return the build root.

    :param environment: settings of the first build.
    :raises ConfigError: the checkout has changes that a clone would not have.
    """
    if source.describe(git_binary, layout.root).endswith("-dirty"):
        raise ConfigError(
            f"files in {layout.root} differ from its commit, a second build would not have them",
            solution="Commit or stash them, then build the ISO and reproduce it.",
        )
    folder = layout.build / "reproduce"
    shutil.rmtree(folder, ignore_errors=True)
    checkout = folder / "elsewhere" / "checkout"
    checkout.parent.mkdir(parents=True)
    process.run(git.argv_for_clone(git_binary, layout.root, checkout))
    if (layout.root / ".venv").is_dir():
        (checkout / ".venv").symlink_to(layout.root / ".venv")
    # Inputs are what their digests say. What a compiler left would only be compared with itself.
    cache = folder / "cache"
    cache.mkdir()
    for name in ("store", "keys"):
        (cache / name).symlink_to(layout.cache / name)
    if (answers := Folder(layout.signatures).answers).is_dir():
        # Where keys are elsewhere: the same bytes have the same signatures.
        shutil.copytree(answers, Folder(checkout / "_build" / "signatures").answers)
        roots.mark(checkout / "_build")
    settings = {
        **environment,
        "BUILD_ROOT": "_build",
        "CACHE_ROOT": str(cache),
        "TZ": "Pacific/Kiritimati",
    }
    argv = ["sh", "-c", 'umask 077; exec "$0" "$@"', str(checkout / "doit.sh"), "-n", "3", "iso"]
    process.run(argv, cwd=checkout, env=settings, echo=True)
    return checkout / "_build"


def compare(first: Layout, second: Layout) -> None:
    """Compare two ISOs; name what differs, and what is in it.

    :raises ContentError: they differ.
    """
    if _equal(first.iso, second.iso):
        events.note(f"{first.iso.name} came out the same, byte for byte")
        return
    names = differing(first.iso_root, second.iso_root)
    if not names:
        raise ContentError(f"the trees are equal, but {first.iso.name} differs from {second.iso}")
    found = list(_pairs(first.iso_root, second.iso_root, names))
    for label, one, other in found[:SHOWN]:
        events.closing(f"differs: {label}: {explain(one, other)}")
    raise ContentError(
        f"{len(found)} files differ in a second build, the first: "
        f"{', '.join(label for label, _, _ in found[:SHOWN])}",
        solution=f"Compare {first.iso_root} with {second.iso_root}.",
    )


def differing(first: Path, second: Path) -> list[str]:
    """Return the paths that two trees do not have in common, as their MANIFESTs tell."""
    rows = [listed(tree) for tree in (first, second)]
    names = {line.split(" ", 4)[-1] for line in rows[0] ^ rows[1]}
    # What only lists the others says nothing itself.
    lists = {iso.CHECKSUMS, f"{iso.CHECKSUMS}.sig"}
    return sorted(names - lists) or sorted(names)


def listed(tree: Path) -> set[str]:
    """Return the lines of a tree's MANIFEST."""
    return set((tree / listing.NAME).read_text(encoding="utf-8").splitlines())


def _pairs(first: Path, second: Path, names: list[str]) -> Iterator[tuple[str, Path, Path]]:
    """Yield what it is and its two files; images first, they are what most of the rest lists."""
    images = {
        str(Path(name).parent)
        for name in names
        if Path(name).name == IMAGE_MANIFEST
        and all((tree / name).is_file() for tree in (first, second))
    }
    for image in sorted(images):
        yield from _blob_pairs(image, first / image, second / image)
    for name in names:
        if str(Path(name).parent) not in images:
            yield name, first / name, second / name


def _blob_pairs(image: str, first: Path, second: Path) -> Iterator[tuple[str, Path, Path]]:
    """Pair blobs by their place in the image: their names are digests, and different."""
    rows = itertools.zip_longest(_blobs(first), _blobs(second), fillvalue="none")
    for number, (one, other) in enumerate(rows):
        if one != other:
            what = f"layer {number}" if number else "config"
            yield f"{image}: {what}", first / one, second / other


def _blobs(folder: Path) -> list[str]:
    manifest = json.loads((folder / IMAGE_MANIFEST).read_bytes())
    found = [manifest["config"], *manifest["layers"]]
    return [blob["digest"].partition(":")[2] for blob in found]


def _equal(first: Path, second: Path) -> bool:
    try:
        process.run(["cmp", "--silent", first, second])
    except CommandError:
        return False
    return True


def explain(first: Path, second: Path) -> str:
    """Return what is different inside two files."""
    for file, which in ((first, "first"), (second, "second")):
        if not file.exists():
            return f"is not in the {which} build"
    diffoscope = shutil.which("diffoscope")
    if not diffoscope and all(map(tarfile.is_tarfile, (first, second))):
        members = {name for name, _ in _members(first).items() ^ _members(second).items()}
        if members:
            return ", ".join(sorted(members)[:SHOWN])
        # The same members: packed in another order, or compressed otherwise.
    program = [diffoscope, "--text", "-"] if diffoscope else ["cmp", "--verbose"]
    try:
        process.run([*program, first, second])
    except CommandError as error:
        lines = error.details.splitlines()
        return "\n".join(lines[:EXPLAINED_LINES])
    return "modes or types differ"


def _members(path: Path) -> dict[str, tuple[object, ...]]:
    """Return what a tar says of each of its members, and the digest of each file."""
    found: dict[str, tuple[object, ...]] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            digest = hashlib.file_digest(stream, "sha256").hexdigest() if stream else ""  # type: ignore[arg-type]
            known = member.type, member.mode, member.uid, member.gid, member.mtime, member.linkname
            found[member.name] = (*known, digest)
    return found
