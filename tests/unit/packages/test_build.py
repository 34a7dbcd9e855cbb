import dataclasses
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from buildchain.core import receipt
from buildchain.core.errors import CommandError, ContentError, PinError
from buildchain.packages import build, kept
from buildchain.packages import steps as packages
from buildchain.packages.build import Builder
from buildchain.project import context
from buildchain.project.model import Package, Source
from buildchain.store.blobs import Store
from tests.unit.packages.test_rpm import SPEC

EPOCH = 1700000000
BUILDER = Builder("builder:1", "docker", EPOCH, Path("/build/root"))
DIGEST = "ab" * 32
DEMO = Package(
    "demo", "1.0", "3", ("demo", "demo-client"), ("demo", "demo-client"), ("demo",),
    (Source("demo_1.0.2.tar.gz", DIGEST, "demo", "1"),),
)  # fmt: skip


@pytest.fixture
def prepared(layout):
    """Return a layout with the sources of a package, its pinned file in the store."""
    folder = layout.package_sources("demo")
    for name, text in {
        "demo.spec": SPEC.replace("Patch", "Source9: compile.sh\nPatch", 1),
        "prepare.sh": "prepare",
        "compile.sh": "compile",
        "files/demo.service": "unit",
        "patches/0001-fix.patch": "patch",
        "debian/control": "Source: demo\nBuild-Depends: debhelper, libx-dev (>= 2)\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    blob = Store(layout.store).path(DIGEST)
    blob.parent.mkdir(parents=True)
    blob.write_text("tarball")
    build.make_folders(layout, DEMO)
    return layout


@pytest.fixture
def sourced(prepared):
    build.read_meta(prepared, DEMO)
    build.get_sources(prepared, DEMO, EPOCH)
    return prepared


def build_debs(layout, package, builder):
    return build.build_debs(layout, package, builder, sources=files(layout, package))


def build_dsc(layout, package, builder):
    return build.build_dsc(layout, package, builder, sources=files(layout, package))


def files(layout, package):
    """Return the package's files, as if git tracked all but what somebody dropped."""
    found = receipt.sources([layout.package_sources(package.name)])
    return [file for file in found if file.name != "dropped"]


@pytest.mark.parametrize(("action", "tree"), [(build_debs, "source/demo"), (build_dsc, "demo-1.0")])
def test_only_what_belongs_to_it_is_packaged(sourced, engine, action, tree):
    (sourced.package_sources("demo") / "debian" / "dropped").touch()
    engine.add_image("builder:1")
    seen = []

    def run(container):
        folder = mounts(container)[0]["/work"] / tree
        seen.extend(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
        return packager("demo_1.0-3_amd64.deb", "demo_1.0-3.dsc")(container)

    engine.on_run = run
    action(sourced, DEMO, BUILDER)
    assert {"debian/control", "prepare.sh", "patches/0001-fix.patch"} <= set(seen)
    assert "debian/dropped" not in seen


def mounts(container):
    """Return where a container's folders are on the host, and which it may write."""
    rows = [bind.rsplit(":", 2) for bind in container["HostConfig"]["Binds"]]
    return {inside: Path(host) for host, inside, _ in rows}, {i for _, i, m in rows if m == "rw"}


def test_folders(prepared):
    assert {p.name for p in prepared.package("demo").iterdir()} == set(build.FOLDERS)


def test_meta_says_what_the_spec_says(prepared):
    made = build.read_meta(prepared, DEMO)
    (meta,) = made.paths
    assert meta == prepared.package("demo") / "demo.meta"
    assert json.loads(meta.read_text()) == {
        "name": "demo", "version": "1.0", "release": "3",
        "sources": ["demo_1.0.2.tar.gz", "demo.service", "compile.sh"],
        "patches": ["0001-fix.patch"],
        "packages": ["demo", "demo-client"],
    }  # fmt: skip


def test_every_difference_between_spec_and_pins_is_named(prepared):
    other = Package("demo", "1.1", "4", (), ("demo-server",), (), (Source("gone.tar", "00"),))
    (prepared.package_sources("demo") / "files" / "demo.service").unlink()
    with pytest.raises(PinError) as caught:
        build.read_meta(prepared, other)
    for problem in (
        "version is 1.0, pinned 1.1",
        "release is 3, pinned 4",
        "demo_1.0.2.tar.gz is neither pinned nor in",
        "demo.service is neither pinned nor in",
        "pinned gone.tar is no Source",
        "no package demo-server",
    ):
        assert problem in caught.value.reason
    assert "demo.spec" in caught.value.reason


@pytest.mark.parametrize(
    ("file", "line", "problem"),
    [
        ("demo.spec", "ExclusiveArch:  aarch64", "line 1 of demo.spec is for another"),
        ("demo.spec", "BuildArch: noarch", ""),
        ("debian/control", "Architecture: arm64", "line 1 of control is for another"),
        ("debian/control", "Architecture: any", ""),
    ],
)
def test_architectures(prepared, file, line, problem):
    path = prepared.package_sources("demo") / file
    path.write_text(f"{line}\n{path.read_text()}")
    if not problem:
        build.read_meta(prepared, DEMO)
        return
    with pytest.raises(PinError, match=problem):
        build.read_meta(prepared, DEMO)


def test_sources(sourced):
    folder = sourced.package("demo") / "SOURCES"
    assert {p.name: p.read_text() for p in folder.iterdir()} == {
        "demo_1.0.2.tar.gz": "tarball", "demo.service": "unit", "0001-fix.patch": "patch",
        "compile.sh": "compile",
    }  # fmt: skip
    assert [p.name for p in build.local_sources(sourced, DEMO)] == [
        "compile.sh", "demo.spec", "prepare.sh", "demo.service", "0001-fix.patch",
    ]  # fmt: skip


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
    made = build.compile_binaries(sourced, DEMO, BUILDER)
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
        build.compile_binaries(sourced, DEMO, dataclasses.replace(BUILDER, is_cold=True))
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
    before = build.compile_binaries(sourced, DEMO, BUILDER)
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
    made = build.compile_binaries(sourced, DEMO, builder)
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
    build.compile_binaries(sourced, DEMO, BUILDER)
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
    made = build.compile_binaries(sourced, DEMO, BUILDER)
    assert (sourced.package("demo") / "compiled" / "demo").read_text() == "demo"
    assert {path.name for path in made.paths[0].iterdir()} == {"demo", "demo-client"}
    assert kept.take(folder, sourced.build / "again") is not None


def test_a_binary_that_was_not_compiled(sourced, engine):
    engine.add_image("builder:1")
    engine.on_run = compiler("demo")
    with pytest.raises(ContentError, match=r"demo: compile\.sh did not leave demo-client"):
        build.compile_binaries(sourced, DEMO, BUILDER)
    assert not (sourced.package("demo") / "compiled").exists()


def test_a_compilation_that_fails(sourced, engine):
    engine.add_image("builder:1")
    engine.on_run = lambda c: (int("/packaging" not in mounts(c)[0]), b"undefined: x\n")
    with pytest.raises(CommandError, match=r"metalk8s-[0-9a-f]{8}-demo-compile failed"):
        build.compile_binaries(sourced, DEMO, BUILDER)


def test_a_build_dependency_that_the_builder_lacks(sourced, engine):
    engine.add_image("builder:1")
    said = b"dpkg-checkbuilddeps: error: Unmet build dependencies: libx-dev (>= 2) y | z\n"
    engine.on_run = lambda _c: (1, said)
    with pytest.raises(ContentError) as caught:
        build.compile_binaries(sourced, DEMO, BUILDER)
    assert "package demo: the builder lacks libx-dev (>= 2) y | z" in caught.value.reason
    assert "demo/debian/control:2: " in caught.value.reason
    assert "[builder] packages" in caught.value.solution
    engine.on_run = lambda _c: (2, b"cannot read control file\n")
    with pytest.raises(CommandError, match="demo-dependencies failed"):
        build.compile_binaries(sourced, DEMO, BUILDER)


def test_nothing_to_compile(sourced, engine):
    engine.add_image("builder:1")
    (sourced.package("demo") / "SOURCES" / "compile.sh").unlink(missing_ok=True)
    stale = sourced.package("demo") / "compiled" / "stale"
    stale.parent.mkdir()
    stale.touch()
    engine.on_run = compiler()
    build.compile_binaries(sourced, dataclasses.replace(DEMO, binaries=()), BUILDER)
    assert list(stale.parent.iterdir()) == []


def packager(*names):
    def run(container):
        places, _ = mounts(container)
        for name in names:
            (places["/work"] / "out").mkdir(exist_ok=True)
            (places["/work"] / "out" / name).write_text(name)
            (places["/work"] / "out" / name).chmod(0o600)
        return 0, b""

    return run


@pytest.mark.parametrize(
    ("action", "built", "folder", "words"),
    [
        (build.build_srpm, ["demo-1.0-3.src.rpm"], "SRPMS", ["rpmbuild", "-bs"]),
        (
            build.build_rpms,
            ["demo-1.0-3.x86_64.rpm", "demo-client-1.0-3.x86_64.rpm"],
            "RPMS",
            ["rpmbuild", "-bb", "metalk8s_prebuilt /compiled"],
        ),
        (build_debs, ["demo_1.0-3_amd64.deb"], "DEBS", ["sh", "-c"]),
        (build_dsc, ["demo_1.0-3.dsc", "demo_1.0.orig.tar.gz"], "DSC", ["sh", "-c"]),
    ],
)
def test_packages(sourced, engine, action, built, folder, words):
    engine.add_image("builder:1")
    engine.on_run = packager(*built, *([] if folder == "DSC" else ["notes.txt"]))
    final = sourced.package("demo") / folder
    (final / "stale.rpm").touch()
    made = action(sourced, DEMO, BUILDER)
    assert made.paths == (final,)
    assert sorted(p.name for p in final.iterdir()) == built
    assert {p.stat().st_mode & 0o777 for p in final.iterdir()} == {0o644}
    (container,) = engine.created
    assert set(words) <= set(container["Cmd"])
    places, writable = mounts(container)
    assert writable == {"/work"}
    assert set(places) <= {"/work", "/sources", "/compiled", "/spec/demo.spec"}
    assert [p.name for p in sourced.package("demo").iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("action", "tree", "name"),
    [
        (build_debs, "source/demo", "demo_1.0-3_amd64.deb"),
        (build_dsc, "demo-1.0", "demo_1.0-3.dsc"),
    ],
)
def test_what_packages_have_in_common_comes_along(sourced, engine, action, tree, name):
    common = sourced.package_sources("common")
    common.mkdir()
    (common / "prepare.sh").write_text("common")
    script = sourced.package_sources("demo") / "prepare.sh"
    script.unlink()
    script.symlink_to("../common/prepare.sh")
    engine.add_image("builder:1")
    seen = []

    def run(container):
        copy = mounts(container)[0]["/work"] / tree / "prepare.sh"
        seen.append((copy.is_symlink(), copy.read_text()))
        return packager(name)(container)

    engine.on_run = run
    action(sourced, DEMO, BUILDER)
    assert seen == [(False, "common")]


@pytest.mark.parametrize(
    ("action", "built", "missing"),
    [
        (build.build_rpms, ["demo-1.0-3.x86_64.rpm"], "no rpm was made of demo-client"),
        (build_debs, [], "no deb was made of demo"),
        (build_debs, ["demo-client_1_amd64.deb"], "no deb was made of demo"),
    ],
)
def test_a_package_that_was_not_made(sourced, engine, action, built, missing):
    engine.add_image("builder:1")
    engine.on_run = packager(*built)
    with pytest.raises(ContentError, match=missing):
        action(sourced, DEMO, BUILDER)


@pytest.mark.parametrize(
    ("action", "built", "foreign"),
    [
        (
            build.build_rpms,
            ["demo-1.0-3.aarch64.rpm", "demo-client-1.0-3.x86_64.rpm"],
            "package demo: demo-1.0-3.aarch64.rpm is for another architecture",
        ),
        (build_debs, ["demo_1.0-3_arm64.deb"], "demo_1.0-3_arm64.deb is for another"),
    ],
)
def test_another_architecture(sourced, engine, action, built, foreign):
    engine.add_image("builder:1")
    engine.on_run = packager(*built)
    with pytest.raises(ContentError, match=re.escape(foreign)) as caught:
        action(sourced, DEMO, BUILDER)
    assert "debian/control" in caught.value.solution
    assert [
        p for kind in ("RPMS", "DEBS") for p in (sourced.package("demo") / kind).iterdir()
    ] == []


def test_packages_of_a_receipt(layout):
    from buildchain.core import receipt
    from buildchain.core.receipt import Made

    for name in ("RPMS/a.rpm", "RPMS/b.txt"):
        receipt.write_whole(layout.build / name, "x")
    path = layout.build / "r.json"
    receipt.write(path, layout.build, Made((layout.build / "RPMS",)))
    assert build.packages_of(path, layout.build, ".rpm") == (layout.build / "RPMS/a.rpm",)
