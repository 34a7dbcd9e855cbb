import json
import re

import pytest

from buildchain.core import receipt
from buildchain.core.errors import ContentError, PinError
from buildchain.core.receipt import Made
from buildchain.packages import build
from buildchain.project.model import Package, Source
from tests.unit.packages.demo import BUILDER, DEMO, mounts


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
    for name in ("RPMS/a.rpm", "RPMS/b.txt"):
        receipt.write_whole(layout.build / name, "x")
    path = layout.build / "r.json"
    receipt.write(path, layout.build, Made((layout.build / "RPMS",)))
    assert build.packages_of(path, layout.build, ".rpm") == (layout.build / "RPMS/a.rpm",)
