import dataclasses
import os
import shutil

import pytest

from buildchain.core import receipt
from buildchain.core.errors import CommandError, ContentError
from buildchain.packages import compilation, kept
from buildchain.packages import steps as packages
from buildchain.project import context
from tests.unit.packages.demo import BUILDER, DEMO, mounts


def compiler(*names):
    def run(container):
        places, _ = mounts(container)
        if "/packaging" in places:
            return 0, b""
        for name in names:
            (places["/work"] / "compiled").mkdir(exist_ok=True)
            (places["/work"] / "compiled" / name).write_text(name)
        return 0, b"compile.sh: done\n"

    return run


def test_compile(sourced, engine):
    engine.add_image("builder:1")
    engine.on_run = compiler("demo", "demo-client", "licenses")
    made = compilation.compile_binaries(sourced, DEMO, BUILDER)
    compiled = sourced.package("demo") / "compiled"
    assert made.paths == (compiled,)
    assert {p.name for p in compiled.iterdir()} == {"demo", "demo-client", "licenses"}
    dependencies, container = engine.created
    assert dependencies["Cmd"][0] == "dpkg-checkbuilddeps"
    _, writable = mounts(container)
    assert writable == {"/work", "/gocache"}
    assert mounts(container)[0]["/gocache"] == sourced.go_cache / "demo", "nobody else's"
    assert "GOCACHE=/gocache" in container["Env"]
    script = container["Cmd"][-1]
    assert "prepare.sh /sources/demo_1.0.2.tar.gz tree /sources/0001-fix.patch" in script
    assert [p.name for p in sourced.package("demo").iterdir() if p.name.startswith(".")] == []


def test_a_release_is_compiled_with_an_empty_cache(sourced, engine):
    """Whatever an earlier build, or another package's, has left."""
    planted = sourced.go_cache / "demo" / "planted"
    planted.parent.mkdir(parents=True)
    planted.touch()
    engine.add_image("builder:1")
    seen = []

    def run(container):
        places, _ = mounts(container)
        if "/gocache" in places:
            seen.append(list(places["/gocache"].iterdir()))
            (places["/gocache"] / "left").touch()
        return compiler("demo", "demo-client")(container)

    engine.on_run = run
    for _ in range(2):
        compilation.compile_binaries(sourced, DEMO, dataclasses.replace(BUILDER, is_cold=True))
    assert seen == [[], []]
    assert [path.name for path in sourced.go_cache.rglob("*")] == ["demo", "planted"]


@pytest.mark.parametrize(("key", "is_cold"), [("", False), ("AB" * 20, True)])
def test_which_builds_are_cold(root, tmp_path, key, is_cold):
    roots = {"CACHE_ROOT": str(tmp_path / "c"), "BUILD_ROOT": str(tmp_path / "b")}
    found = context.load(root, {**roots, "SIGNING_KEY": key})
    steps = {step.name: step for step in packages.stages(found, found.catalog.packages[0])}
    [compiling] = [step for name, step in steps.items() if name.endswith("pkg_compile")]
    assert compiling.config["cold"] is is_cold


@pytest.mark.parametrize(
    ("change", "times"),
    [("", 1), ("spec", 1), ("SOURCES/compile.sh", 2), ("SOURCES/demo.service", 2), ("builder", 2)],
)
def test_the_same_is_compiled_once(sourced, engine, change, times):
    """Whatever build root it is for; what is not read by the compilation does not matter."""
    for reference in ("builder:1", "builder:2"):
        engine.add_image(reference)
    engine.on_run = compiler("demo", "demo-client", "licenses")
    before = compilation.compile_binaries(sourced, DEMO, BUILDER)
    first = receipt.write(sourced.build / "first", sourced.build, before)
    compiled, builder = sourced.package("demo") / "compiled", BUILDER
    shutil.rmtree(compiled)
    if change == "builder":
        builder = dataclasses.replace(BUILDER, reference="builder:2")
    elif change == "spec":
        (sourced.package_sources("demo") / "demo.spec").write_text("other")
    elif change:
        (sourced.package("demo") / change).unlink()
        (sourced.package("demo") / change).write_text("other")
    made = compilation.compile_binaries(sourced, DEMO, builder)
    assert sum("compile.sh" in container["Cmd"][-1] for container in engine.created) == times
    assert receipt.write(sourced.build / "second", sourced.build, made).outputs == first.outputs
    assert not list(sourced.package("demo").glob(".*"))


def test_empty_folders_and_modes_are_kept_too(tmp_path):
    """Whatever the mask of who takes them: they are in packages."""
    made = tmp_path / "made"
    for name, mode in (("lib/empty/more", 0o755), ("lib/closed", 0o750)):
        (made / name).mkdir(parents=True)
        (made / name).chmod(mode)
    (made / "lib/closed/x").touch(0o755)
    modes = {p.relative_to(made): p.stat().st_mode for p in made.rglob("*")}
    kept.keep(tmp_path / "cache/digits", made)
    before = os.umask(0o077)
    try:
        assert kept.take(tmp_path / "cache/digits", made) is not None
    finally:
        os.umask(before)
    assert {p.relative_to(made): p.stat().st_mode for p in made.rglob("*")} == modes


@pytest.mark.parametrize("damage", ["change", "remove", "add", "list", "no list"])
def test_what_is_kept_and_was_damaged_is_not_used(sourced, engine, damage):
    engine.add_image("builder:1")
    engine.on_run = compiler("demo", "demo-client")
    compilation.compile_binaries(sourced, DEMO, BUILDER)
    (folder,) = (sourced.compiled_cache / "demo").glob("[!.]*")
    match damage:
        case "change":
            (folder / "demo").write_text("dEmo")
        case "remove":
            (folder / "demo").unlink()
        case "add":
            (folder / "more").touch()
        case "list":
            (folder / kept.DIGESTS).write_text("[]")
        case _:
            (folder / kept.DIGESTS).unlink()
    made = compilation.compile_binaries(sourced, DEMO, BUILDER)
    assert (sourced.package("demo") / "compiled" / "demo").read_text() == "demo"
    assert {path.name for path in made.paths[0].iterdir()} == {"demo", "demo-client"}
    assert kept.take(folder, sourced.build / "again") is not None


def test_a_binary_that_was_not_compiled(sourced, engine):
    engine.add_image("builder:1")
    engine.on_run = compiler("demo")
    with pytest.raises(ContentError, match=r"demo: compile\.sh did not leave demo-client"):
        compilation.compile_binaries(sourced, DEMO, BUILDER)
    assert not (sourced.package("demo") / "compiled").exists()


def test_a_compilation_that_fails(sourced, engine):
    engine.add_image("builder:1")
    engine.on_run = lambda c: (int("/packaging" not in mounts(c)[0]), b"undefined: x\n")
    with pytest.raises(CommandError, match=r"metalk8s-[0-9a-f]{8}-demo-compile failed"):
        compilation.compile_binaries(sourced, DEMO, BUILDER)


def test_a_build_dependency_that_the_builder_lacks(sourced, engine):
    engine.add_image("builder:1")
    said = b"dpkg-checkbuilddeps: error: Unmet build dependencies: libx-dev (>= 2) y | z\n"
    engine.on_run = lambda _c: (1, said)
    with pytest.raises(ContentError) as caught:
        compilation.compile_binaries(sourced, DEMO, BUILDER)
    assert "package demo: the builder lacks libx-dev (>= 2) y | z" in caught.value.reason
    assert "demo/debian/control:2: " in caught.value.reason
    assert "[builder] packages" in caught.value.solution
    engine.on_run = lambda _c: (2, b"cannot read control file\n")
    with pytest.raises(CommandError, match="demo-dependencies failed"):
        compilation.compile_binaries(sourced, DEMO, BUILDER)


def test_nothing_to_compile(sourced, engine):
    engine.add_image("builder:1")
    (sourced.package("demo") / "SOURCES" / "compile.sh").unlink(missing_ok=True)
    stale = sourced.package("demo") / "compiled" / "stale"
    stale.parent.mkdir()
    stale.touch()
    engine.on_run = compiler()
    compilation.compile_binaries(sourced, dataclasses.replace(DEMO, binaries=()), BUILDER)
    assert list(stale.parent.iterdir()) == []
