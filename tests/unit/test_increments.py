"""What runs again when one input changes: the declared graph is the truth.

The product's own graph, with every outside program faked, on a copy of the checkout; one kind of
input is touched, and the steps that are executed are compared, all of them.
"""

import collections
import gc
import importlib
import json
import re
import shutil
import sys
import warnings
from pathlib import Path

import pytest
from doit import dependency

from buildchain.core import receipt
from buildchain.manual import documents
from buildchain.project import catalog, config, context
from buildchain.store.blobs import Store
from tests.conftest import ROOT
from tests.unit import engine_api
from tests.unit.packages.demo import mounts
from tests.unit.running import run_doit
from tests.unit.workshop import Machine

COPIED = (
    *("VERSION", "buildchain", "docs", "images", "packages", "salt", "requirements.txt"),
    *("README.md", "CONTRIBUTING.md"),
    *documents.ALONE,
)
DURATION = re.compile(r" +[\d.]+ s$")

# What stands at the end of every change that reaches the medium.
MEDIUM = {
    "WRITE bill of materials",
    "POPULATE tree of metalk8s.iso",
    "CHECK nothing is missing on the ISO",
    "BUILD ISO metalk8s.iso",
    "SIGN SHA256SUM of metalk8s.iso",
    "SIGN blocks of metalk8s.iso",
    "SIGN provenance of metalk8s.iso",
}
IMAGES = {"SHARE equal layers", "GENERATE configuration of the registry"}
SALT = {"DEPLOY Salt tree"}
RPMS = {
    "SIGN RPMs",
    "REPOSITORY RPM, metalk8s",
    "CHECK redhat packages of every role",
}
DEBS = {"REPOSITORY APT, metalk8s", "CHECK debian packages of every role"}


class Elsewhere(Machine):
    """A machine whose checkout is a copy that tests may spoil."""

    def __init__(self, root, folder, *others):
        self.checkout = folder / "checkout"
        self.copy(root)
        self.flavours = {}
        super().__init__(root, folder, *others)

    def _run(self, container):
        """Leave something else of a package that has a flavour."""
        status = super()._run(container)
        work = mounts(container)[0].get("/work")
        name = container["Labels"].get("metalk8s.build", "")
        for package, flavour in self.flavours.items():
            for path in work.glob("*/*") if f"-{package}-" in name else ():
                if path.parent.name in {"compiled", "out"}:
                    path.write_text(f"{path.name}\n{flavour}")
        return status

    def copy(self, root):
        shutil.rmtree(self.checkout, ignore_errors=True)
        for name in COPIED:
            target = self.checkout / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (root / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(root / name, target, symlinks=True, ignore=ignored)
            else:
                shutil.copy2(root / name, target)

    def restore(self):
        super().restore()
        self.copy(self.root)
        self.flavours.clear()

    def run(self, *argv):
        self.monkeypatch.setenv("BUILD_ROOT", str(self.build))
        self.monkeypatch.setattr(sys, "argv", ["doit", *argv])
        self.monkeypatch.setattr(
            context, "__file__", f"{self.checkout}/buildchain/project/context.py"
        )
        self.monkeypatch.delitem(sys.modules, "dodo", raising=False)
        context.current.cache_clear()
        try:
            return run_doit(self.root, vars(importlib.import_module("dodo")), *argv)
        finally:
            context.current.cache_clear()

    def edit(self, path, old, new):
        """Change a file of the checkout."""
        file = self.checkout / path
        text = file.read_text()
        assert old in text, f"{path} has no {old}"
        file.write_text(text.replace(old, new, 1))


@pytest.fixture(scope="module")
def workshop(root, tmp_path_factory, programs_class, development_key):
    """Build an ISO once for all tests."""
    folder = tmp_path_factory.mktemp("machine")
    with engine_api.serving() as engine, pytest.MonkeyPatch.context() as monkeypatch:
        machine = Elsewhere(root, folder, programs_class(folder / "bin"), engine, monkeypatch)
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


@pytest.fixture
def made(workshop, monkeypatch, request):
    """Return a machine that has just built an ISO."""
    request.node.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
    workshop.restore()
    workshop.plug_in(monkeypatch)
    return workshop


def executed(result):
    """Return what was done, but for tools that are looked for anew: verb and subject."""
    assert result.status == 0, result.out + result.err
    lines = [line[4:] for line in result.out.splitlines() if line.startswith("..  ")]
    return {" ".join(DURATION.sub("", line).split()) for line in lines}


def test_nothing_changed(made):
    assert executed(made.run("iso")) == set()


def test_nothing_is_hashed_when_nothing_changed(made, monkeypatch):
    def refuse(path, *_):
        raise AssertionError(f"{path} was hashed")

    monkeypatch.setattr(receipt, "sha256", refuse)
    monkeypatch.setattr(dependency, "get_file_md5", refuse)
    assert executed(made.run("iso")) == set()


def test_no_product_is_hashed_twice(made, monkeypatch):
    """However many links it has; and doit, which hashes on its own, never sees one."""
    counts = collections.Counter()
    names = {}
    sha256, md5 = receipt.sha256, dependency.get_file_md5

    def count(path):
        status = path.stat()
        inode = (status.st_ino, status.st_size, status.st_mtime_ns)
        counts[inode] += 1
        names[inode] = path.relative_to(made.build.parent).as_posix().removeprefix("build/")
        return sha256(path)

    def count_md5(path):
        assert made.build not in Path(path).parents or "/receipts/" in path, path
        return md5(path)

    monkeypatch.setattr(receipt, "sha256", count)
    monkeypatch.setattr(dependency, "get_file_md5", count_md5)
    made.forget_build()
    assert made.run("iso").status == 0
    twice = {names[inode] for inode, number in counts.items() if number > 1}
    status = {"apt/status.empty", "base/status", "floor/status"}
    assert twice <= status, "the list of installed packages is part of identities"
    assert any(name.endswith(".rpm") for name in names.values())


def test_a_touched_file_is_not_a_changed_one(made):
    for path in made.checkout.rglob("*"):
        if path.is_file():
            path.touch()
    assert executed(made.run("iso")) == set()


def new_source(machine):
    """Pin another file, of which something else is compiled and packaged."""
    [source] = machine.pins.package("runc").sources[:1]
    digest = Store(machine.cache / "store").keep(b"a new source")
    machine.edit("buildchain/pins/default/packages.toml", source.sha256, digest)
    machine.flavours["runc"] = "new"


def new_lock_line(machine):
    """Lock another version of one package of one set."""
    path = machine.checkout / "buildchain/pins/default/debian.lock"
    document = json.loads(path.read_text())
    document["image-nginx"]["packages"][0]["version"] += "+new"
    path.write_text(json.dumps(document))


def another_hardlink(machine):
    shutil.copy2(machine.programs.folder / "hardlink", machine.programs.folder / "hardlink-2")
    machine.monkeypatch.setenv("HARDLINK_BIN", "hardlink-2")


def edits(*change):
    return lambda machine: machine.edit(*change)


def sets(name):
    return lambda machine: machine.monkeypatch.setenv(*name.split("="))


PINS = "buildchain/pins/default"
CATALOG = catalog.load(ROOT, "default")
SETS = (
    *("base", "builder", "floor", "node"),
    *(f"image-{image.name}" for image in CATALOG.images if image.debs),
    *(f"source-{package.name}" for package in CATALOG.packages if package.go_debs),
)
BUILT = tuple(f"{image.name}:{image.version}" for image in CATALOG.images)

CASES = {
    "digest of a source": (
        new_source,
        {
            *(f"{verb} runc 1.1.5-1" for verb in ("READ SPEC", "GET SOURCE", "COMPILE")),
            *(f"{verb} runc 1.1.5-1" for verb in ("BUILD RPM", "BUILD DEB")),
            *RPMS, *DEBS, *MEDIUM,
        },
    ),
    "build argument of an image": (
        edits(f"{PINS}/images.toml", '"Kubernetes pause"', '"Pause"'),
        {"BUILD IMAGE pause:3.4", *IMAGES, *MEDIUM},
    ),
    "version of an image": (
        edits(f"{PINS}/images.toml", '"3.4"', '"3.5"'),
        {"BUILD IMAGE pause:3.5", *IMAGES, *SALT, *MEDIUM},
    ),
    "Dockerfile": (
        edits("images/nginx/Dockerfile", "FROM", "# why\nFROM"),
        {"BUILD IMAGE nginx:1.22.1", *IMAGES, *MEDIUM},
    ),
    "script": (edits("salt/scripts/verify.sh", "set -", "# why\nset -"), {*SALT, *MEDIUM}),
    "state": (edits("salt/states/metalk8s/repo/init.sls", "# ", "# Now: "), {*SALT, *MEDIUM}),
    "page": (edits("docs/README.md", "The manual", "A manual"), {"DEPLOY manual", *MEDIUM}),
    "chapter": (
        edits("docs/site/chapters.toml", '"Installation"', '"Installing"'),
        {"DEPLOY manual", *MEDIUM},
    ),
    "Python package that makes the manual": (
        edits("requirements.txt", "sphinx==", "# why\nsphinx=="), {"DEPLOY manual"},
    ),
    "lock line": (
        new_lock_line,
        {
            *(f"RESOLVE Debian packages for {name}" for name in SETS),
            "BUILD IMAGE nginx:1.22.1",  # which came out the same
            "RECORD packages of other people in this build", *MEDIUM,
        },
    ),
    "packaging that changes nothing inside": (
        edits("packages/runc/debian/control", "Description: ", "Description: new "),
        {"BUILD DEB runc 1.1.5-1"},
    ),
    "version of the product": (
        edits("VERSION", "VERSION_SUFFIX=", "VERSION_SUFFIX=new"),
        {
            *("WRITE product.txt", "DEPLOY manual", "GENERATE configuration of the registry"),
            *SALT, *MEDIUM,
        },
    ),
    "commit": (lambda machine: machine.tell_git({"rev-list": 8}), {"WRITE product.txt", *MEDIUM}),
    "reason of an unused image": (
        edits(f"{PINS}/images.toml", 'from_scratch', 'unused = ""\nfrom_scratch'), set(),
    ),
    "code of the check": (
        edits("buildchain/proof/salt_jinja.py", '"""', '"""Now '),
        {"CHECK nothing is missing on the ISO"},
    ),
    "code of a room": (
        edits("buildchain/images/registry.py", '"""', '"""Now '),
        {*(f"BUILD IMAGE {name}" for name in BUILT), *IMAGES},
    ),
    "name of the product": (
        sets("PROJECT_NAME=Acme"),
        {
            *(f"BUILD IMAGE {name}" for name in BUILT), *IMAGES, "WRITE product.txt",
            *(line.replace("metalk8s", "acme") for line in MEDIUM),
        },
    ),
    "date": (sets("SOURCE_DATE_EPOCH=1700000001"), MEDIUM - {"WRITE bill of materials"}),
    "program": (another_hardlink, {"SHARE equal layers", "CHECK hardlink"}),
    "option of other tasks": (sets("VAGRANT_PROVIDER=libvirt"), set()),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_runs_again(made, case):
    touch, expected = CASES[case]
    touch(made)
    assert executed(made.run("iso")) == expected


def test_a_stricter_policy_is_applied_to_what_was_built(made):
    """Here the archive has nothing of what is locked, which the build before only told."""
    made.monkeypatch.setenv("LOCK_POLICY", "strict")
    result = made.run("iso")
    assert result.status == 1
    refused = re.findall(r"LockError: (Debian packages for \w+) cannot be had", result.out)
    assert len(refused) == 1, "the build stops at the first, and doit starts either of two"
    made.monkeypatch.setenv("LOCK_POLICY", "roll")
    again = {f"RESOLVE {refused[0]}"}
    assert executed(made.run("iso")) == again, "the rest is as the other policy wants it"
