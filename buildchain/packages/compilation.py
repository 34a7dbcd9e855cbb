"""The compilation of a package, or what an earlier one left.

Programs, in the builder and without a network: the package's own ``prepare.sh`` and
``compile.sh``, ``dpkg-checkbuilddeps``. On disk::

    _build/packages/<name>/compiled/   what compile.sh left
    <cache>/compiled/<name>/<digits>/  the same, by what it was compiled from
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from buildchain.core import receipt
from buildchain.core.errors import CommandError, ContentError
from buildchain.core.files import replaced
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made
from buildchain.packages import kept
from buildchain.packages.builder import Builder, run, scratch
from buildchain.project import catalog
from buildchain.project.model import Package

UNMET = re.compile(r"Unmet build dependencies: (?P<names>.+)")


def compile_binaries(
    layout: Layout,
    package: Package,
    builder: Builder,
    known: Mapping[Path, str] = MappingProxyType({}),
) -> Made:
    """Unpack, patch and compile, or take what the same builder made of the same sources.

    That and the compiler's cache, of this package alone, are kept unless cold. A package without a
    ``compile.sh`` has nothing to compile and leaves an empty folder.

    :param known: SHA-256 of sources.
    :raises ContentError: the builder lacks what the package is built with, or a binary the pins
        promise was not built.
    """
    sources = layout.package(package.name) / "SOURCES"
    meta = json.loads((sources.parent / f"{package.name}.meta").read_text(encoding="utf-8"))
    patches = " ".join(f"/sources/{name}" for name in meta["patches"])
    archives = " ".join(f"/sources/{name}" for name in package.archives)
    work = scratch(layout, package, "compile")
    go_cache = work / ".gocache" if builder.is_cold else layout.go_cache / package.name
    go_cache.mkdir(parents=True, exist_ok=True)
    final = layout.package(package.name) / "compiled"
    _check_build_dependencies(layout, package, builder, work)
    if not (sources / "compile.sh").is_file():
        with replaced(final):
            return Made()
    script = (
        "set -e; cd /work; "
        f"sh /sources/prepare.sh {archives} tree {patches}; "
        "sh /sources/compile.sh tree compiled"
    )
    said = [builder.reference, script]
    digits = kept.identity(said, receipt.files([sources]), known)
    place = layout.compiled_cache / package.name / digits
    found = None if builder.is_cold else kept.take(place, final)
    if found is not None:
        shutil.rmtree(work, ignore_errors=True)
        return found
    run(
        builder,
        f"{package.name}-compile",
        ["sh", "-c", script],
        {sources: "/sources", work: "/work", go_cache: "/gocache"},
        writable=(work, go_cache),
        environment={"GOCACHE": "/gocache"},
    )
    built = {path.name for path in (work / "compiled").iterdir()}
    missing = [name for name in package.binaries if name not in built]
    if missing:
        raise ContentError(f"{package.name}: compile.sh did not leave {', '.join(missing)}")
    shutil.rmtree(final, ignore_errors=True)
    (work / "compiled").rename(final)
    shutil.rmtree(work, ignore_errors=True)
    return Made((final,)) if builder.is_cold else kept.keep(place, final)


def _check_build_dependencies(
    layout: Layout, package: Package, builder: Builder, work: Path
) -> None:
    folder = layout.package_sources(package.name) / "debian"
    try:
        run(
            builder,
            f"{package.name}-dependencies",
            # Without what Debian counts as essential for any build: a C++ compiler, among others.
            ["dpkg-checkbuilddeps", "-I", "/packaging/control"],
            {folder: "/packaging", work: "/work"},
            writable=(work,),
        )
    except CommandError as error:
        unmet = UNMET.search(error.details)
        if unmet is None:
            raise
        where = catalog.place(folder / "control", unmet["names"].split()[0])
        raise ContentError(
            f"{where}: package {package.name}: the builder lacks {unmet['names'].strip()}",
            solution="Add it to [builder] packages in the profile's profile.toml.",
        ) from error
