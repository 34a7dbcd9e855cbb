"""Packages we compile: their sources, and one compilation packaged twice.

Programs, in the builder and without a network: ``rpmbuild``, ``dpkg-buildpackage``. On disk::

    _build/packages/<name>/SOURCES/    everything the spec's Source and Patch lines name
    _build/packages/<name>/<name>.meta what the spec says (JSON)
    _build/packages/<name>/{SRPMS,RPMS,DEBS,DSC}/
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.errors import ContentError, PinError
from buildchain.core.files import replaced
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.debian import archive
from buildchain.packages import bundles, rpm
from buildchain.packages.builder import Builder, run, scratch
from buildchain.project.model import Package
from buildchain.store.blobs import link

FOLDERS = ("SOURCES", "SRPMS", "RPMS", "DEBS", "DSC")
# Where a package's folder keeps the files its spec names. Some are links to what packages have in
# common; copies of them follow the links.
PLACES = (".", "files", "patches")
# What the machines we support are called, in packaging and in the names of packages.
FITTING = re.compile(r"[ \t._](x86_64|noarch|src|amd64|all|any)(\.rpm|\.deb)?$")


def make_folders(layout: Layout, package: Package) -> Made:
    """Make the folders of a package's build."""
    for name in FOLDERS:
        (layout.package(package.name) / name).mkdir(parents=True, exist_ok=True)
    return Made()


def spec_path(layout: Layout, package: Package) -> Path:
    """Return the spec file of a package."""
    return layout.package_sources(package.name) / f"{package.name}.spec"


def read_meta(layout: Layout, package: Package) -> Made:
    """Read the spec, compare it with the pins and keep what it says.

    :raises PinError: they differ; every difference is named.
    """
    path = spec_path(layout, package)
    spec = rpm.read_spec(path)
    problems = [
        f"{field} is {getattr(spec, field)}, pinned {getattr(package, field)}"
        for field in ("name", "version", "release")
        if getattr(spec, field) != getattr(package, field)
    ]
    pinned = set(package.archives)
    folder = layout.package_sources(package.name)
    problems += [
        f"{name} is neither pinned nor in {folder}"
        for name in (*spec.sources, *spec.patches)
        if name not in pinned and _local(folder, name) is None
    ]
    problems += [f"pinned {name} is no Source" for name in sorted(pinned - set(spec.sources))]
    problems += [f"no package {name}" for name in package.rpms if name not in spec.packages]
    problems += _foreign(path, ("ExclusiveArch", "BuildArch"))
    problems += _foreign(folder / "debian" / "control", ("Architecture",))
    if problems:
        raise PinError(
            f"{path}: {'; '.join(problems)}",
            solution="Make the spec and buildchain/pins/*/packages.toml agree.",
        )
    meta = layout.package(package.name) / f"{package.name}.meta"
    write_whole(meta, json.dumps(dataclasses.asdict(spec), indent=1) + "\n")
    return Made((meta,))


def _foreign(path: Path, fields: tuple[str, ...]) -> list[str]:
    """Return the lines of a file that are for machines we do not support."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [
        f"line {number} of {path.name} is for another architecture: {line}"
        for number, line in enumerate(lines, 1)
        if line.startswith(tuple(f"{field}:" for field in fields)) and not FITTING.search(line)
    ]


def _local(folder: Path, name: str) -> Path | None:
    return next((folder / p / name for p in PLACES if (folder / p / name).is_file()), None)


def local_sources(layout: Layout, package: Package) -> tuple[Path, ...]:
    """Return the files of a package's folder that can go into its source package."""
    folder = layout.package_sources(package.name)
    return tuple(p for place in PLACES for p in sorted((folder / place).glob("*")) if p.is_file())


def get_sources(layout: Layout, package: Package, epoch: int) -> Made:
    """Collect everything the spec names in ``SOURCES``: pinned files, bundles and our own.

    :param epoch: date of what is in bundles, seconds since 1970.
    """
    meta = layout.package(package.name) / f"{package.name}.meta"
    spec = json.loads(meta.read_text(encoding="utf-8"))
    folder = layout.package_sources(package.name)
    with replaced(layout.package(package.name) / "SOURCES") as fresh:
        made = archive.get_sources(layout, package, fresh)
        bundles.make(layout, package, fresh, epoch)
        for name in (*spec["sources"], *spec["patches"]):
            local = _local(folder, name)
            if local is not None and not (fresh / name).exists():
                shutil.copy(local, fresh / name)
    sources = layout.package(package.name) / "SOURCES"
    digests = {sources / path.name: digest for path, digest in made.digests.items()}
    return Made((sources,), digests=digests)


def build_srpm(layout: Layout, package: Package, builder: Builder) -> Made:
    """Make the source RPM."""
    return _rpmbuild(layout, package, builder, "-bs", "SRPMS", {})


def build_rpms(layout: Layout, package: Package, builder: Builder) -> Made:
    """Make the binary RPMs out of what was compiled."""
    return _rpmbuild(layout, package, builder, "-bb", "RPMS", {"metalk8s_prebuilt": "/compiled"})


def _rpmbuild(
    layout: Layout,
    package: Package,
    builder: Builder,
    stage: str,
    kind: str,
    defines: Mapping[str, str],
) -> Made:
    build = layout.package(package.name)
    work = scratch(layout, package, kind.lower())
    folders = {
        "_topdir": "/work",
        "_sourcedir": "/sources",
        "_srcrpmdir": "/work/out",
        "_rpmdir": "/work/out",
        "_rpmfilename": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
    }
    spec = Path(shutil.copyfile(spec_path(layout, package), work / f"{package.name}.spec"))
    # rpm records when a source was changed, which for a checkout is when it was checked out.
    for file in (spec, *(build / "SOURCES").iterdir()):
        os.utime(file, (builder.epoch, builder.epoch))
    (work / "out").mkdir()
    run(
        builder,
        f"{package.name}-{kind.lower()}",
        rpm.argv_for_rpmbuild(stage, f"/work/{spec.name}", {**folders, **defines}),
        {
            build / "SOURCES": "/sources",
            build / "compiled": "/compiled",
            work: "/work",
        },
        writable=(work,),
    )
    expected = package.rpms if stage == "-bb" else (package.name,)
    return _collect(work, build / kind, expected, "rpm")


def build_debs(layout: Layout, package: Package, builder: Builder, sources: Sequence[Path]) -> Made:
    """Make the DEBs out of what was compiled.

    :param sources: what of the package's folder belongs to it.
    """
    build = layout.package(package.name)
    work = scratch(layout, package, "debs")
    _copy(layout, package, sources, work / "source" / package.name)
    script = (
        f"set -e; cd /work/source/{package.name}; METALK8S_PREBUILT=/compiled "
        "dpkg-buildpackage --build=binary --no-sign --ignore-builtin-builddeps; "
        "mkdir /work/out; mv ../*.deb /work/out/"
    )
    run(
        builder,
        f"{package.name}-debs",
        ["sh", "-c", script],
        {build / "compiled": "/compiled", work: "/work"},
        writable=(work,),
    )
    return _collect(work, build / "DEBS", package.debs, "deb")


def build_dsc(layout: Layout, package: Package, builder: Builder, sources: Sequence[Path]) -> Made:
    """Make the Debian source package: our packaging, and all sources in its ``sources/``.

    ``METALK8S_SOURCES=sources dpkg-buildpackage`` compiles it without a network.

    :param sources: what of the package's folder belongs to it.
    """
    work = scratch(layout, package, "dsc")
    stem = f"{package.name}-{package.version}"
    tree = work / stem
    _copy(layout, package, sources, tree)
    (tree / "sources").mkdir()
    for name in package.archives:
        link(layout.package(package.name) / "SOURCES" / name, tree / "sources" / name)
    orig = f"{package.name}_{package.version}.orig.tar.gz"
    script = (
        f"set -e; cd /work; chmod -R u=rwX,go=rX {stem}; "
        f"find {stem} -exec touch --no-dereference --date=@{builder.epoch} {{}} +; "
        # Sources are compressed in themselves.
        f"tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@{builder.epoch} "
        f"--exclude={stem}/debian --create {stem} | gzip -n -1 >{orig}; "
        f"SOURCE_DATE_EPOCH={builder.epoch} dpkg-source --build {stem}; "
        f"mkdir out; mv {package.name}_* out/"
    )
    run(
        builder,
        f"{package.name}-dsc",
        ["sh", "-c", script],
        {work: "/work"},
        writable=(work,),
    )
    return _collect(work, layout.package(package.name) / "DSC", (package.name,), "dsc")


def _copy(layout: Layout, package: Package, sources: Sequence[Path], target: Path) -> None:
    """Copy files of a package's folder, what links lead to in place of links."""
    folder = layout.package_sources(package.name)
    for file in sources:
        copy = target / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)


def _collect(work: Path, final: Path, expected: tuple[str, ...], suffix: str) -> Made:
    """Put the packages that were made in place of the previous ones.

    :raises ContentError: one that the pins promise is missing, or is for another architecture.
    """
    # A Debian source package is several files.
    built = sorted((work / "out").glob("*" if suffix == "dsc" else f"*.{suffix}"))
    separator = "-" if suffix == "rpm" else "_"
    missing = [n for n in expected if not any(f.name.startswith(n + separator) for f in built)]
    if missing:
        raise ContentError(f"{final.parent.name}: no {suffix} was made of {', '.join(missing)}")
    foreign = [file.name for file in built if not FITTING.search(file.name)]
    if foreign and suffix != "dsc":
        raise ContentError(
            f"package {final.parent.name}: {', '.join(foreign)} is for another architecture",
            solution=f"Correct BuildArch or ExclusiveArch in packages/{final.parent.name}/*.spec, "
            f"or Architecture in packages/{final.parent.name}/debian/control.",
        )
    with replaced(final) as fresh:
        for file in built:
            link(file, fresh / file.name)
            (fresh / file.name).chmod(0o644)
    shutil.rmtree(work, ignore_errors=True)
    return Made((final,))


def packages_of(path: Path, build_root: Path, suffix: str) -> tuple[Path, ...]:
    """Return the package files a receipt names."""
    outputs = receipt.read(path).outputs
    return tuple(build_root / o.path for o in outputs if o.path.endswith(suffix))
