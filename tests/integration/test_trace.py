"""Every byte on the ISO comes from a line of a lock, or from a file of the repository.

Followed backwards through what the build declared: a file of the ISO to the step that made it, a
step to its inputs, and so on to where there is nothing behind. What a step may read without having
declared it is not seen here; that it reads nothing is what the second build elsewhere proves.
"""

from __future__ import annotations

import hashlib
import importlib
import pathlib
import sys
import tarfile
from dataclasses import dataclass
from typing import Any

import pytest

from buildchain.core import listing, parts, receipt
from buildchain.debian import archive, lock
from buildchain.debian.archive import closure_name
from buildchain.medium import steps as medium
from buildchain.packages import bundles
from buildchain.project import context as contexts
from buildchain.project.context import Context
from buildchain.project.model import DebianFile
from tests.integration.conftest import ROOT, run

pytestmark = pytest.mark.integration

SELF_MADE = {"MANIFEST", "MANIFEST.sig", "SHA256SUM", "SHA256SUM.sig"}  # lists of the rest
# Steps with nothing behind them: which archive to ask, whose key, the last commit, empty folders.
BEGINNINGS = {"_apt_update", "_iso_key"}


@dataclass
class Graph:
    """What the build declared, and what it left.

    :param inputs: step to the files it depends on.
    :param makers: receipt to the step that writes it.
    """

    context: Context
    inputs: dict[str, set[pathlib.Path]]
    makers: dict[pathlib.Path, str]

    def behind(self, starts: set[str]) -> set[str]:
        """Return steps with everything they need."""
        reached: set[str] = set()
        todo = list(starts)
        while todo:
            step = todo.pop()
            if step not in reached:
                reached.add(step)
                todo += [self.makers[path] for path in self.inputs[step] if path in self.makers]
        return reached

    def outputs(self, step: str) -> dict[str, str]:
        """Return what a step left: path in the build root to SHA-256."""
        found = receipt.read(self.context.layout.receipt(step)).outputs
        return {output.path: output.sha256 for output in found}


@pytest.fixture(scope="module")
def graph(build_root: pathlib.Path) -> Graph:
    """Read the tasks of this checkout as ``doit`` does, for the build that is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUILD_ROOT", str(build_root))
        patch.setattr(sys, "argv", ["doit"])
        patch.delitem(sys.modules, "dodo", raising=False)
        patch.syspath_prepend(str(ROOT))
        contexts.current.cache_clear()
        try:
            dodo = importlib.import_module("dodo")
            tasks = [task for name in dodo.__all__ if name != "DOIT_CONFIG"
                     for task in _made(getattr(dodo, name)())]  # fmt: skip
            context = contexts.current()
        finally:
            contexts.current.cache_clear()
    steps = {
        ":".join(filter(None, (task["basename"], task.get("name")))): task
        for task in tasks
        if task.get("targets")
    }
    return Graph(
        context,
        {name: set(map(pathlib.Path, task["file_dep"])) for name, task in steps.items()},
        {pathlib.Path(task["targets"][-1]): name for name, task in steps.items()},
    )


def _made(found: Any) -> list[dict[str, Any]]:
    return [found] if isinstance(found, dict) else list(found)


@pytest.fixture(scope="module")
def tracked() -> set[pathlib.Path]:
    """Return the files of the repository."""
    listed = run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard")
    return {(ROOT / name).resolve() for name in listed.splitlines()}


def test_every_file_of_the_iso_has_one_maker(graph: Graph, iso_tree: pathlib.Path) -> None:
    """What is on the medium is what a step said it made, byte for byte."""
    made: dict[str, str] = {}
    for part in medium.parts(graph.context):
        assert part.receipt in graph.makers
        for path, digest in graph.outputs(graph.makers[part.receipt]).items():
            source = graph.context.layout.build / path
            if source == part.source or part.source in source.parents:
                target = parts._target(part, source)
                assert target not in made
                made[target] = digest
    text = (iso_tree / listing.NAME).read_text(encoding="utf-8")
    there = {p: e.digest for p, e in listing.parse(text, "the ISO").files.items()}
    assert {path: digest for path, digest in there.items() if path not in SELF_MADE} == made


def test_behind_every_step_is_the_repository(graph: Graph, tracked: set[pathlib.Path]) -> None:
    """No step reads a file that is neither tracked nor made by another step."""
    reached = graph.behind({medium.POPULATE})
    strangers = {
        f"{step}: {path}"
        for step in reached
        for path in graph.inputs[step]
        if path not in graph.makers and path.resolve() not in tracked
    }
    assert strangers == set()
    code = ROOT / "buildchain"
    # Every step names the code that does it; that is not what it is made of.
    without = {
        step for step in reached if not {p for p in graph.inputs[step] if code not in p.parents}
    }
    assert {step for step in without if not step.endswith(":pkg_mkdir")} == BEGINNINGS
    for step in without - {"_iso_key"}:
        assert all(path.startswith("apt/") for path in graph.outputs(step)), step


def test_every_package_of_the_archive_is_a_line_of_the_lock(
    graph: Graph, iso_tree: pathlib.Path
) -> None:
    """Of the lock of the repository, or of the record on the ISO that says what was replaced."""
    layout = graph.context.layout
    recorded = lock.read(iso_tree / "lock" / "debian.lock", DebianFile)
    replaced = (iso_tree / "lock" / "replaced.txt").read_text(encoding="utf-8").splitlines()
    pinned = lock.read(layout.pins / graph.context.config.profile / "debian.lock", DebianFile)
    closures = {s.partition(":")[2] for s in graph.behind({medium.POPULATE}) if "_closure:" in s}
    assert closures == recorded.keys()
    for name in closures:
        [path] = graph.outputs(f"_debian_closure:{name}")
        used = receipt.sha256(layout.build / path)
        text = archive.list_text(recorded[name].packages).encode()
        assert hashlib.sha256(text).hexdigest() == used, "the record is what was used"
        for file in set(recorded[name].packages) - set(pinned[name].packages):
            assert any(line.startswith(f"{name}: {file.name} ") for line in replaced), file


def test_every_package_file_is_one_of_these_or_ours(graph: Graph, iso_tree: pathlib.Path) -> None:
    recorded = lock.read(iso_tree / "lock" / "debian.lock", DebianFile)
    known = {file.sha256 for file in recorded["node"].packages}
    for step in graph.inputs:
        if step.endswith(":pkg_deb") or step == "_package_sign":
            known |= set(graph.outputs(step).values())
    text = (iso_tree / listing.NAME).read_text(encoding="utf-8")
    files = listing.parse(text, "the ISO").files
    packages = {path for path in files if path.endswith((".deb", ".rpm"))}
    assert packages
    assert {path for path in packages if files[path].digest not in known} == set()


def test_every_source_is_pinned_or_ours(graph: Graph, tracked: set[pathlib.Path]) -> None:
    """What is compiled: pinned files, files of the repository, and bundles of what is listed."""
    layout = graph.context.layout
    ours = {receipt.sha256(path) for path in tracked if path.is_file()}
    for package in graph.context.catalog.packages:
        pinned = {source.sha256 for source in package.sources}
        step = f"_build_packages:{package.name}:pkg_get_source"
        for path, digest in graph.outputs(step).items():
            name = pathlib.Path(path).name
            if name not in package.bundles:
                assert digest in pinned | ours, path
            elif name.endswith("-wheels.tar"):
                listed = bundles.read_wheels(layout.package_sources(package.name) / package.wheels)
                with tarfile.open(layout.build / path) as archive:
                    for member in archive:
                        content = archive.extractfile(member)
                        assert content is not None
                        found = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
                        assert listed[pathlib.Path(member.name).name] == found
            else:
                closure = layout.receipt(f"_debian_closure:{closure_name(package)}")
                assert closure in graph.inputs[step]
