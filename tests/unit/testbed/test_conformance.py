"""Kubernetes' own tests: compiled once for the same sources, and an image that they know."""

import dataclasses
import json
import os

import pytest

from buildchain.core.errors import CommandError, ContentError
from buildchain.packages import kept
from buildchain.testbed import conformance
from tests.unit.debian.test_base import closure
from tests.unit.packages.demo import BUILDER, DEMO, mounts

SKOPEO = """
place = argv[-1].removeprefix("docker-archive:").partition(":")[0]
open(place, "x").write("archive")
"""
NAMES = "agnhost one.invalid/agnhost:2.21\ndnsutils two.invalid/dnsutils:1.0\n"


@pytest.fixture
def sourced(layout, engine):
    """Return a layout with the sources of a package and the recipes, and a builder."""
    folder = layout.package("demo") / "SOURCES"
    folder.mkdir(parents=True)
    for name in (*DEMO.archives, "prepare.sh", "0001-fix.patch", "unit.service"):
        (folder / name).write_text(name)
    meta = json.dumps({"patches": ["0001-fix.patch"]})
    (layout.package("demo") / "demo.meta").write_text(meta)
    for name in ("compile.sh", "Dockerfile"):
        conformance.recipe(layout, name).parent.mkdir(parents=True, exist_ok=True)
        conformance.recipe(layout, name).write_text(name)
    engine.add_image("builder:1")
    engine.on_run = compiler(*conformance.PROGRAMS)
    return layout


def compiler(*programs):
    def run(container):
        output = mounts(container)[0]["/work"] / "compiled"
        (output / "porter").mkdir(parents=True)
        for name in (*programs, "porter/localhost.crt", "porter/localhost.key"):
            (output / name).write_text(name)
        (output / "images").write_text(NAMES)
        return 0, b"compile.sh: done\n"

    return run


def test_it_is_compiled_of_the_sources_of_the_product(sourced, engine):
    made = conformance.compile_tests(sourced, DEMO, BUILDER)
    assert made.paths == (conformance.compiled(sourced),)
    (container,) = engine.created
    places, writable = mounts(container)
    assert writable == {"/work", "/gocache"}
    assert places["/gocache"] == sourced.go_cache / "demo"
    assert container["HostConfig"]["NetworkMode"] == "none"
    script = container["Cmd"][-1]
    assert "prepare.sh /sources/demo_1.0.2.tar.gz tree /sources/0001-fix.patch" in script
    assert [path.name for path in sourced.conformance.iterdir()] == ["compiled"]


@pytest.mark.parametrize(
    ("change", "times"),
    [
        ("", 1),
        ("SOURCES/unit.service", 1),
        ("SOURCES/0001-fix.patch", 2),
        ("SOURCES/prepare.sh", 2),
        ("compile.sh", 2),
        ("builder", 2),
    ],
)
def test_again_only_for_other_sources(sourced, engine, change, times):
    """Also in a new build root; what is kept is in the cache."""
    conformance.compile_tests(sourced, DEMO, BUILDER)
    builder = BUILDER
    if change == "builder":
        builder = dataclasses.replace(BUILDER, reference="builder:2")
        engine.add_image("builder:2")
    elif change == "compile.sh":
        conformance.recipe(sourced, change).write_text("other")
    elif change:
        (sourced.package("demo") / change).write_text("other")
    for path in conformance.compiled(sourced).rglob("*.*"):
        path.unlink()
    conformance.compile_tests(sourced, DEMO, builder)
    assert len(engine.created) == times
    assert (conformance.compiled(sourced) / "porter/localhost.crt").is_file()


def test_few_are_kept(sourced):
    for number in range(kept.KEPT + 2):
        conformance.recipe(sourced, "compile.sh").write_text(str(number))
        conformance.compile_tests(sourced, DEMO, BUILDER)
        for folder in sourced.conformance_cache.glob("[!.]*"):
            age = folder.stat().st_mtime - 100  # seconds
            os.utime(folder, (age, age))
    assert len(list(sourced.conformance_cache.glob("[!.]*"))) == kept.KEPT


def test_what_is_not_compiled_is_not_kept(sourced, engine):
    engine.on_run = compiler("e2e.test", "agnhost")
    with pytest.raises(ContentError, match=r"compile\.sh did not leave ginkgo"):
        conformance.compile_tests(sourced, DEMO, BUILDER)
    engine.on_run = lambda _c: (1, b"undefined: x\n")
    with pytest.raises(CommandError, match="-conformance failed"):
        conformance.compile_tests(sourced, DEMO, BUILDER)
    assert not sourced.conformance_cache.exists()
    assert not conformance.compiled(sourced).exists()


def test_the_image_has_the_names_that_the_tests_know(sourced, engine, fake_program):
    conformance.compile_tests(sourced, DEMO, BUILDER)
    closure(sourced, "testbed-pods", "curl")
    engine.add_image("base:1")
    fake_program("skopeo", SKOPEO)
    for _ in range(2):
        made = conformance.make_image(sourced, "base:1", docker="docker", skopeo_bin="skopeo")
    reference = made.facts["reference"]
    [(built, context, arguments)] = engine.builds
    assert (built, arguments) == (reference, {"BASE_IMAGE": "base:1"})
    assert set(context) == {*conformance.CONTENT, "Dockerfile", "debs/curl_1_amd64.deb"}
    *_, words = fake_program.calls("skopeo")
    archive = sourced.conformance / "images.tar"
    assert words[-2:] == [
        f"docker-daemon:{reference}", f"docker-archive:{archive}:one.invalid/agnhost:2.21",
    ]  # fmt: skip
    assert "--additional-tag=two.invalid/dnsutils:1.0" in words
    assert made.paths == (archive,)
