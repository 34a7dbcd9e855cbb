"""Kubernetes' own tests, of the sources that the cluster is made of, and what their pods run.

Programs: ``skopeo``; in the builder and without a network ``prepare.sh`` of ``packages/kubernetes``
and ``compile.sh`` of ``tests/conformance``. On disk::

    _build/conformance/compiled/   e2e.test, ginkgo, agnhost, images: what compile.sh left
    _build/conformance/images.tar  the image of their pods, by the names that the tests know
    <cache>/conformance/<digits>/  what was compiled, by what it was compiled of

In the engine: ``metalk8s-conformance:<12 digits>``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from buildchain.core import process, receipt
from buildchain.core.errors import ContentError
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made
from buildchain.debian import base
from buildchain.machine import engine
from buildchain.packages import kept
from buildchain.packages.builder import Builder, run
from buildchain.project.model import Package
from buildchain.pulls import skopeo

CLOSURE = "testbed-pods"
# Programs that a pod of the tests runs, and files they read: name in the image to place.
CONTENT = {
    "agnhost": "agnhost",
    "localhost.crt": "porter/localhost.crt",
    "localhost.key": "porter/localhost.key",
}
PROGRAMS = ("e2e.test", "ginkgo", "agnhost")


def recipe(layout: Layout, name: str) -> Path:
    """Return a file that says how it is made."""
    return layout.root / "tests" / "conformance" / name


def compiled(layout: Layout) -> Path:
    """Return the folder of what was compiled."""
    return layout.conformance / "compiled"


def compile_tests(layout: Layout, package: Package, builder: Builder) -> Made:
    """Compile the tests, or take what was compiled of the same sources in the same builder.

    :raises ContentError: a program was not built.
    """
    sources = layout.package(package.name) / "SOURCES"
    place = layout.conformance_cache / _identity(layout, package, builder, sources)
    found = kept.take(place, compiled(layout))
    if found is not None:
        return found
    _compile(layout, package, builder)
    return kept.keep(place, compiled(layout))


def _patches(layout: Layout, package: Package) -> list[str]:
    meta = layout.package(package.name) / f"{package.name}.meta"
    return list(json.loads(meta.read_text(encoding="utf-8"))["patches"])


def _identity(layout: Layout, package: Package, builder: Builder, sources: Path) -> str:
    names = (*package.archives, "prepare.sh", *_patches(layout, package))
    files = [*(sources / name for name in names), recipe(layout, "compile.sh")]
    return kept.identity(builder.reference, files, {})


def _compile(layout: Layout, package: Package, builder: Builder) -> None:
    sources = layout.package(package.name) / "SOURCES"
    work = layout.conformance / ".work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    # What the tests have in common with the product was compiled with the same flags.
    go_cache = layout.go_cache / package.name
    go_cache.mkdir(parents=True, exist_ok=True)
    archives = " ".join(f"/sources/{name}" for name in package.archives)
    patches = " ".join(f"/sources/{name}" for name in _patches(layout, package))
    script = (
        f"set -e; cd /work; sh /sources/prepare.sh {archives} tree {patches}; "
        "sh /recipe/compile.sh tree compiled"
    )
    mounts = {
        sources: "/sources",
        recipe(layout, "compile.sh").parent: "/recipe",
        work: "/work",
        go_cache: "/gocache",
    }
    run(
        builder,
        "conformance",
        ["sh", "-c", script],
        mounts,
        writable=(work, go_cache),
        environment={"GOCACHE": "/gocache"},
    )
    missing = [name for name in PROGRAMS if not (work / "compiled" / name).is_file()]
    if missing:
        raise ContentError(f"tests/conformance/compile.sh did not leave {', '.join(missing)}")
    shutil.rmtree(compiled(layout), ignore_errors=True)
    (work / "compiled").rename(compiled(layout))
    shutil.rmtree(work, ignore_errors=True)


def names(layout: Layout) -> Mapping[str, str]:
    """Return how the tests call the images of their pods."""
    lines = (compiled(layout) / "images").read_text(encoding="utf-8").splitlines()
    return {name: reference for name, _, reference in (line.partition(" ") for line in lines)}


def ensure_image(layout: Layout, docker: str, below: str) -> str:
    """Return the image's reference, built (again) when the engine does not have it."""
    files = {name: compiled(layout) / place for name, place in CONTENT.items()}
    files["Dockerfile"] = recipe(layout, "Dockerfile")
    parts = [below.encode(), layout.closure(CLOSURE).read_bytes()]
    for name, file in sorted(files.items()):
        parts += [name.encode(), receipt.sha256(file).encode()]
    reference = base.content_name("metalk8s-conformance", parts)
    with engine.connect(docker) as client:
        return base.ensure_image(layout, client, reference, CLOSURE, files, below)


def make_image(layout: Layout, below: str, *, docker: str, skopeo_bin: str) -> Made:
    """Make the image of the tests' pods, and an archive of it for the machines of a cluster."""
    reference = ensure_image(layout, docker, below)
    archive = layout.conformance / "images.tar"
    archive.unlink(missing_ok=True)  # skopeo adds to one that is there
    called = tuple(names(layout).values())
    host = engine.endpoint(docker)
    process.run(skopeo.argv_for_archive(skopeo_bin, reference, archive, called, engine=host))
    return Made((archive,), {"reference": reference})
