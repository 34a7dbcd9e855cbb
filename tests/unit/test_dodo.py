"""The product's own graph, from nothing to a signed ISO, with every outside program faked.

What is real: doit, the graph, the actions, gpg, the registry's generator, the ISO's reader.
"""

import dataclasses
import gc
import hashlib
import os
import shutil
import subprocess
import sys
import warnings

import pytest

from buildchain.images import steps as images
from buildchain.machine import engine_service
from buildchain.machine import steps as machine
from buildchain.packages import steps as packages
from buildchain.project import config, context
from tests.unit import engine_api
from tests.unit.workshop import TELL, Machine

SUDO = "argv = [word for word in argv if word != '-n']\nos.execvp(argv[0], argv)"


@pytest.fixture(scope="module")
def workshop(root, tmp_path_factory, programs_class, development_key):
    """Build an ISO once for all tests."""
    folder = tmp_path_factory.mktemp("machine")
    with engine_api.serving() as engine, pytest.MonkeyPatch.context() as monkeypatch:
        machine = Machine(root, folder, programs_class(folder / "bin"), engine, monkeypatch)
        (machine.cache / "keys").mkdir()
        shutil.copy2(development_key, machine.cache / "keys")
        for option in config.OPTIONS:
            monkeypatch.delenv(option.name, raising=False)
        machine.plug_in(monkeypatch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            result = machine.run("iso")
            gc.collect()
        assert result.status == 0, result.out + result.err
        machine.save()
        yield machine
        assert engine.unknown == []


@pytest.fixture
def made(workshop, monkeypatch, request):
    """Return a machine that has just built an ISO."""
    request.node.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
    workshop.restore()
    workshop.plug_in(monkeypatch)
    return workshop


@pytest.fixture
def bare(made):
    """Return a machine that has built nothing yet."""
    made.forget_build()
    return made


def test_iso_from_nothing(made, require):
    build = made.build
    assert (build / "metalk8s.iso").is_file()
    digest = hashlib.sha256((build / "metalk8s.iso").read_bytes()).hexdigest()
    assert (build / "SHA256SUM").read_text() == f"{digest}  metalk8s.iso\n"
    subprocess.run(
        [require("gpgv"), "--keyring", build / "keys" / "metalk8s.gpg",
         build / "SHA256SUM.sig", build / "SHA256SUM"], check=True, capture_output=True,
    )  # fmt: skip
    names = {line[66:] for line in made.sums().splitlines()}
    assert {"product.txt", "registry-config.inc", "salt/metalk8s/versions.json"} <= names
    for image in made.pins.images:
        assert f"images/{image.name}/{image.version}/manifest.json" in names
    assert any(n.startswith("packages/redhat/metalk8s-el9/") and n.endswith(".rpm") for n in names)
    assert any(n.startswith("packages/debian/metalk8s/pool/") for n in names)
    assert not any("/." in f"/{name}" for name in names), "nothing unfinished"
    assert {p.name for p in build.iterdir() if p.name.startswith(".")} == {
        ".doit.json",
        ".lock",
        ".metalk8s",
    }
    assert list((build / "tmp").iterdir()) == []


def test_sources(made):
    assert made.run("sources_iso").status == 0
    folder = made.build / "sources"
    digest = hashlib.sha256((folder / "metalk8s-sources.iso").read_bytes()).hexdigest()
    assert (folder / "SHA256SUM").read_text() == f"{digest}  metalk8s-sources.iso\n"
    names = {line[66:] for line in (folder / "root" / "SHA256SUM").read_text().splitlines()}
    for package in made.pins.packages:
        stem = f"{package.name}-{package.version}-{package.release}"
        assert f"redhat/{stem}.src.rpm" in names
        assert f"debian/{package.name}_{package.version}-{package.release}.dsc" in names
    assert made.run("sources_iso").executed == []


def test_second_run_executes_nothing(made):
    calls = list(made.engine.calls)
    made.programs.forget()
    result = made.run("iso")
    assert result.status == 0
    assert result.executed == []
    assert made.engine.calls == calls
    assert {
        p.name for p in made.programs.folder.glob(".*.calls")
    } <= {".git.calls"}, "nothing is started but git"  # fmt: skip


def test_in_parallel_elsewhere_it_is_the_same(made, tmp_path):
    first = made.sums()
    made.build = tmp_path / "other"
    shutil.rmtree(made.cache / "made")
    assert made.run("-n", "4", "iso").status == 0
    assert made.sums() == first


def test_another_checkout_takes_what_was_made(made, tmp_path):
    """No package and no image is made twice of the same."""
    first = made.sums()
    made.build = tmp_path / "other"
    made.engine.builds.clear()
    made.engine.created.clear()
    assert made.run("iso").status == 0
    assert made.sums() == first
    assert made.engine.builds == []
    labels = [container["Labels"]["metalk8s.build"] for container in made.engine.created]
    assert all(label.endswith("-dependencies") for label in labels), "what builds need is asked"


def test_a_release_takes_nothing(made):
    """Whatever lies in the cache, it makes everything itself."""
    found = context.load(made.root, {})
    settings = dataclasses.replace(found.config, signing_key="0" * 40)
    release = dataclasses.replace(found, config=settings)
    steps = [step for package in release.catalog.packages
             for step in packages.stages(release, package)]  # fmt: skip
    steps += [images._image(release, image) for image in release.catalog.images]
    assert len(steps) > len(release.catalog.packages) * 5
    assert [step.name for step in steps if step.keep] == []


def test_a_deleted_iso_is_written_again_and_nothing_else(made):
    (made.build / "metalk8s.iso").unlink()
    result = made.run("iso")
    assert result.status == 0
    assert result.executed[0] == "metalk8s.iso"
    assert len(result.executed) <= 4, "its checksum, blocks and provenance may follow"


def test_our_own_packages_go_into_an_image(made):
    image = next(image for image in made.pins.images if image.packages)
    shutil.rmtree(made.build / "images" / image.name)
    shutil.rmtree(made.cache / "made")
    assert made.run(f"_image_build:{image.name}").status == 0
    ((_, files, _),) = made.engine.builds
    ours = {name for package in made.pins.packages for name in package.debs}
    found = {name.removeprefix("debs/").partition("_")[0] for name in files}
    assert found & ours == set(image.packages)


def test_info_reads_as_sentences(made):
    (made.build / "metalk8s.iso").unlink()
    made.monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000001")
    out = made.run("info", "_iso_build").out
    assert str(made.build / "metalk8s.iso") in out
    assert "fingerprint is as in the last successful run" in out
    assert "outputs are complete" in out
    assert "0x" not in out, "no address of a function"


def test_a_changed_name_reaches_images_and_medium(made):
    made.monkeypatch.setenv("PROJECT_NAME", "Acme")
    result = made.run("iso")
    assert result.status == 0, result.out
    assert (made.build / "acme.iso").is_file()
    assert "product.txt" in result.executed
    compiled = [line for line in result.out.splitlines() if line.startswith("..  COMPILE")]
    assert compiled == [], "what is compiled does not depend on it"


def test_images_that_the_engine_lost_are_made_again_when_needed(made):
    made.engine.images.clear()
    assert made.run("iso").executed == []
    shutil.rmtree(made.build / "images" / "etcd")
    result = made.run("iso")
    assert result.status == 0, result.out
    image = next(image for image in made.pins.images if image.name == "etcd")
    assert f"etcd:{image.version}" in result.executed
    assert len([name for name in result.executed if ":" in name]) == 1, "one image"


def test_stale_files_do_not_reach_the_medium(made):
    before = made.sums()
    (made.build / "images" / "stale").write_text("x")
    (made.build / "salt_tree" / "stale").write_text("x")
    (made.build / "root" / "product.txt").unlink()
    assert made.run("iso").status == 0
    assert made.sums() == before


def test_replaced_development_key_signs_everything_again(made):
    key = made.cache / "keys" / "development.key"
    key.unlink()
    result = made.run("iso")
    assert result.status == 0, result.out
    assert "key" in result.executed
    assert {"metalk8s"} & set(result.executed), "repositories are signed with it"


def test_clean_of_images(made):
    assert made.run("clean", "-n", "images").out.count("removing") > 20
    assert (made.build / "images").exists()
    assert made.run("clean", "images").status == 0
    assert not (made.build / "images").exists()
    result = made.run("iso")
    assert result.status == 0, result.out
    assert not any("COMPILE" in line for line in result.out.splitlines() if line[:2] == "..")


def test_clean_of_everything(made):
    assert made.run("clean", "--clean-all").status == 0
    left = [p for p in made.build.rglob("*") if p.is_file()]
    names = {p.name for p in left}
    assert not names & {"metalk8s.iso", "product.txt", "manifest.json", "SHA256SUM"}
    assert not (made.build / "receipts").exists()
    assert (made.cache / "keys" / "development.key").exists(), "the cache outlives it"


def test_missing_tool_is_told_before_anything_is_built(bare):
    bare.monkeypatch.setenv("MKISOFS_BIN", "no-such-mkisofs")
    result = bare.run("iso")
    assert result.status == 1
    assert "ToolError: no-such-mkisofs (MKISOFS_BIN) is missing" in result.out
    assert "./doit.sh setup" in result.out
    assert bare.engine.builds == []
    assert not bare.build.joinpath("base").exists()


def test_engine_that_does_not_run(bare):
    bare.monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    result = bare.run("_builder_image")
    assert result.status == 1
    assert "EngineError: no Docker engine answers at tcp://127.0.0.1:1" in result.out
    assert "Traceback" not in result.out
    bare.monkeypatch.setenv("DOCKER_HOST", bare.engine.url)
    result = bare.run("_builder_image")
    assert (result.status, result.executed) == (0, ["builder"])


def test_no_network(bare):
    """What was built as locked is built again from nothing, out of the store."""
    failures = [bare.archive / kind for kind in ("update", "resolve", "download", "source")]
    for failure in failures:
        failure.write_text("99")
    replaced = bare.run("_builder_image")
    bare.fetch_locked()
    # Not up to the repositories: the fake archive would not let APT read those either.
    result = bare.run("_builder_image", "_debian_closure:node", "_build_packages:runc:pkg_deb")
    for failure in failures:
        failure.unlink()
    assert replaced.status != 0, "the build before was made of what the fake archive has"
    assert "the Debian archive cannot be reached" in replaced.out
    assert result.status == 0, result.out + result.err


def test_a_release_is_what_its_commit_says(bare, fake_program):
    fake_program("git", "print('?? salt/states/_modules/dropped.py')")
    bare.monkeypatch.setenv("PATH", f"{fake_program.folder}{os.pathsep}{os.environ['PATH']}")
    bare.monkeypatch.setenv("SIGNING_KEY", "AB" * 20)
    result = bare.run("iso")
    assert result.status != 0
    assert "SIGNING_KEY is set, and 1 files in" in result.out + result.err
    assert "dropped.py" in result.out + result.err
    assert result.executed in ([], ["checkout"])


def test_a_base_by_digest(bare):
    reference = "registry.example/debian@sha256:" + "ab" * 32
    bare.engine.registry.add(reference)
    bare.engine.files["/var/lib/dpkg/status"] = b"Package: bash\n"
    bare.monkeypatch.setenv("BASE_IMAGE", reference)
    result = bare.run("_builder_image")
    assert result.status == 0, result.out
    assert bare.programs.calls("mmdebstrap") == []
    assert bare.engine.builds[-1][2] == {"BASE_IMAGE": reference}


def test_setup_finds_everything(made):
    made.programs("dpkg-query")
    result = made.run("setup:packages", "setup:engine")
    assert result.status == 0, result.out
    assert result.executed == []
    names = [line.split()[0] for line in made.run("list", "--all").out.splitlines()]
    assert {"setup", "setup:packages", "setup:engine"} <= set(names)


def test_setup_installs_what_is_missing(made, fake_program):
    """The package manager of this machine makes the program appear."""
    made.monkeypatch.setenv("SKOPEO_BIN", "skopeo-2")
    skopeo = made.programs.folder / "skopeo"
    script = f"import shutil\nif 'install' in argv: shutil.copy({str(skopeo)!r}, {{!r}})"
    fake_program("dpkg-query")
    fake_program("apt-get", script.format(str(fake_program.folder / "skopeo-2")))
    fake_program("sudo", SUDO)
    made.monkeypatch.setenv("PATH", f"{fake_program.folder}{os.pathsep}{os.environ['PATH']}")
    result = made.run("setup:packages")
    assert result.status == 0, result.out
    assert "installing skopeo" in result.out
    assert made.run("setup:packages").executed == []


def test_setup_with_an_engine_that_has_to_be_started(made, fake_program, tmp_path):
    made.programs("dpkg-query")
    for name in ("dockerd", "systemctl"):
        fake_program(name, f"open({str(tmp_path / 'started')!r}, 'w')")
    fake_program("sudo", SUDO)
    made.monkeypatch.setenv("PATH", f"{fake_program.folder}{os.pathsep}{os.environ['PATH']}")
    made.monkeypatch.setattr(engine_service, "OWN", ("", made.engine.url))
    made.monkeypatch.setattr(engine_service, "LOG", tmp_path / "dockerd.log")

    def ping(_match):
        started = (tmp_path / "started").exists()
        return (200, b"OK") if started else (500, {"message": "not yet"})

    made.engine.refuse["GET /_ping"] = ping
    try:
        result = made.run("setup:engine")
    finally:
        made.engine.refuse.clear()
    assert result.status == 0, result.out
    assert result.executed == ["engine"]
    assert "starting the Docker engine" in result.out


def test_setup_for_what_else_is_on_the_command_line(made):
    made.monkeypatch.setattr(sys, "argv", ["doit", "setup", "vagrant_up", "test:unit"])
    context.current.cache_clear()
    try:
        tasks = {task["name"]: task for task in machine.task_setup()}
        first = next(task for task in machine.task_check_for() if task["name"])
    finally:
        context.current.cache_clear()
    assert tasks["packages"]["title"](None) == "SET UP         tools to build and test and vagrant"
    assert "shellcheck" in tasks["packages"]["doc"]
    assert first["task_dep"] == ["setup"], "nothing is missed before it was installed"


@pytest.fixture
def checking(made, fake_program):
    """Return a machine whose interpreter and linters are fakes."""
    python = fake_program("python", TELL)
    for name in ("salt-lint", "shellcheck", "gofmt", "operator-sdk"):
        fake_program(name, TELL)
    fake_program("git", TELL + "print('doit.sh')")
    made.monkeypatch.setenv("PATH", f"{fake_program.folder}{os.pathsep}{os.environ['PATH']}")
    made.monkeypatch.setattr(sys, "executable", str(python))
    lock = made.root / "requirements-dev.txt"
    shutil.copy(lock, python.parent.parent / lock.name)
    return made


def test_lint_and_format_run_their_tools(checking, fake_program):
    result = checking.run("lint", "format", "codegen")
    assert result.status == 0, result.out
    assert ["doit.sh"] in fake_program.calls("shellcheck")
    modules = {argv[1] for argv in fake_program.calls("python")}
    assert {"ruff", "mypy", "yamllint"} <= modules


def test_a_ring_is_timed(checking, fake_program):
    result = checking.run("test:unit")
    assert result.status == 0, result.out
    (argv,) = [argv for argv in fake_program.calls("python") if "pytest" in argv]
    assert argv[-1] == "tests/unit"
    *_, took, total, slowest = result.out.splitlines()
    assert took.split()[0] == "unit"
    assert total.split()[:2] == ["in", "all"]
    assert slowest.strip() == "the 0 slowest tests:"


def test_soak_is_no_part_of_the_tests(checking):
    """It takes hours: nobody gets it who has not asked for it."""
    listed = checking.run("info", "test").out
    assert "test:unit" in listed
    assert "soak" not in listed
    assert "test:soak" in checking.run("list", "--all").out
