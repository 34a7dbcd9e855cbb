"""A machine that builds, every program outside of Python pretended."""

import copy
import hashlib
import importlib
import json
import os
import re
import shutil
import sys
import tempfile

from buildchain.debian import lock
from buildchain.manual import site
from buildchain.packages import bundles
from buildchain.project import catalog, context, vulnerabilities
from buildchain.project.model import DebianFile
from buildchain.store.blobs import Store
from tests.unit import fakes
from tests.unit.archive import Archive
from tests.unit.debian.test_base import MMDEBSTRAP
from tests.unit.images.test_build import export, tar_of
from tests.unit.packages.demo import mounts
from tests.unit.running import run_doit

TELL = "if '--version' in argv:\n    print('version 99.9.9')\n    sys.exit(0)\n"
# The checkout is clean; what it tracks is for git itself to say. git.json: word to other answer;
# clone/: what a clone has.
GIT = f"""
folder = os.path.dirname(sys.argv[0])
if os.path.exists(os.path.join(folder, "git.json")):
    import json
    with open(os.path.join(folder, "git.json")) as stream:
        for word, answer in json.load(stream).items():
            if word in argv:
                print(answer)
                sys.exit(0)
if "clone" in argv:
    import shutil
    shutil.copytree(os.path.join(folder, "clone"), argv[-1])
    sys.exit(0)
if "ls-files" in argv:
    os.execv({shutil.which("git")!r}, ["git", *argv])
if "rev-list" in argv:
    print(7)
elif "rev-parse" in argv:
    print("a" * 40)
elif "tag" not in argv and "status" not in argv:
    print("1.0-0-gabc")
"""
# Containers and images of one build root carry a hash of it.
OF_BUILD = re.compile(r"^metalk8s-[0-9a-f]{8}-")


RENDER = site._render
RENDERED = {}  # digest of what Sphinx reads: what it made of that


def rendered_once(settings, source, made, version):
    """Let Sphinx make a site, or copy what it made of the same pages before."""
    read = hashlib.sha256(version.encode())
    for folder in (settings, source):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            if "__pycache__" not in path.parts:
                read.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    kept = RENDERED.get(read.digest())
    if kept is None:
        problems = RENDER(settings, source, made, version)
        if not problems:
            kept = tempfile.TemporaryDirectory()
            shutil.copytree(made, kept.name, dirs_exist_ok=True)
            RENDERED[read.digest()] = kept
        return problems
    shutil.copytree(kept.name, made)
    return []


class Machine:
    """A machine with a build's programs, an engine and an archive, all of them pretended.

    What it made can be saved once and put back before each test.
    """

    def __init__(self, root, folder, programs, engine, monkeypatch):
        self.root, self.engine, self.programs = root, engine, programs
        self.monkeypatch, self.saved = monkeypatch, folder / "saved"
        self.exports, self.cache = folder / "exports", folder / "cache"
        self.archive = folder / "archive"
        self.pins = catalog.load(root, "default")
        self.build = self.home = folder / "build"
        self._programs()
        self._sources()
        monkeypatch.setattr(site, "_render", rendered_once)
        engine.on_build, engine.on_run = self._build, self._run

    def plug_in(self, monkeypatch):
        """Let the process see this machine for the length of a test."""
        self.monkeypatch, self.build = monkeypatch, self.home
        path = f"{self.programs.folder}{os.pathsep}{os.environ['PATH']}"
        for name, value in {
            "PATH": path,
            "DOCKER_HOST": self.engine.url,
            "CACHE_ROOT": str(self.cache),
            "SOURCE_DATE_EPOCH": "1700000000",
        }.items():
            monkeypatch.setenv(name, value)

    def save(self):
        """Keep what was built."""
        for name in ("build", "cache"):
            shutil.copytree(self.home.with_name(name), self.saved / name, symlinks=True)
        self.images = copy.deepcopy(self.engine.images)

    def restore(self):
        """Go back to what was saved."""
        for name in ("build", "cache"):
            shutil.rmtree(self.home.with_name(name), ignore_errors=True)
            shutil.copytree(self.saved / name, self.home.with_name(name), symlinks=True)
        self.engine.images = copy.deepcopy(self.images)
        self.engine.builds.clear()
        self.programs.forget()
        self.tell_git({})

    def forget_build(self):
        """Be a machine that has built nothing, though its downloads are there."""
        shutil.rmtree(self.build)
        self.engine.images.clear()

    def _programs(self):
        for tool in catalog.tools(self.root):
            if "build" in tool.purposes and tool.name not in ("gpg", "gpgv"):
                self.programs(tool.name, TELL)
        self.programs("git", TELL + GIT)
        self.programs("xorrisofs", fakes.mkisofs(), site=True)
        self.programs("rpm", fakes.RPM)
        self.programs("dpkg-deb", fakes.DPKG_DEB)
        self.programs("skopeo", fakes.SKOPEO.format(folder=str(self.exports)))
        self.programs("createrepo_c", fakes.CREATEREPO)
        self.programs("apt-ftparchive", fakes.FTPARCHIVE)
        self.programs("mmdebstrap", TELL + MMDEBSTRAP)
        versions = {i.version_of: f"{i.version}-1" for i in self.pins.images if i.version_of}
        Archive(self.programs, self.archive).set("versions", json.dumps(versions))

    def tell_git(self, answers):
        """Have git answer otherwise where one of these words is among its arguments."""
        (self.programs.folder / "git.json").write_text(json.dumps(answers))

    def _sources(self):
        """Put stand-ins of pinned sources where the store would have verified ones."""
        for package in self.pins.packages:
            inputs = {source.file: source.sha256 for source in package.sources}
            if package.wheels:
                folder = self.root / "packages" / package.name
                inputs |= bundles.read_wheels(folder / package.wheels)
            for file, digest in inputs.items():
                path = Store(self.cache / "store").path(digest)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(file)
                if ".debian.tar." in file:
                    path.write_bytes(tar_of({"debian/patches/series": self._series(package.name)}))

    def _series(self, package):
        """Return the patches of Debian that the table of vulnerabilities names."""
        records = vulnerabilities.read(self.root / "buildchain" / "pins").records
        return "\n".join(record.patch for record in records if record.component == package)

    def fetch_locked(self):
        """Put stand-ins of locked packages where a build as locked leaves them."""
        path = self.root / "buildchain" / "pins" / "default" / "debian.lock"
        for file in lock.records(path, DebianFile):
            path = Store(self.cache / "store").path(file.sha256)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.file)

    def _build(self, reference, files, arguments):
        if OF_BUILD.match(reference):
            layers = [tar_of({name: text.decode("latin-1") for name, text in files.items()})]
            if "BASE_IMAGE" in arguments:
                layers.insert(0, self.engine.imported[arguments["BASE_IMAGE"]])
            folder = self.exports / reference.replace("/", "_")
            shutil.rmtree(folder, ignore_errors=True)
            export(folder, layers, {"Entrypoint": ["/x"]})
        return [{"stream": "built\n"}]

    def _run(self, container):
        work = mounts(container)[0]["/work"]
        if container["Cmd"][0] == "dpkg-checkbuilddeps":
            return 0, b""
        name = container["Labels"]["metalk8s.build"]
        name = OF_BUILD.sub("", name)
        package = self.pins.package(name.rpartition("-")[0])
        stem = f"{package.version}-{package.release}"
        folder, names = {
            "compile": ("compiled", package.binaries),
            "srpms": ("out", [f"{package.name}-{stem}.src.rpm"]),
            "rpms": ("out", [f"{n}-{stem}.x86_64.rpm" for n in package.rpms]),
            "debs": ("out", [f"{n}_{stem}_amd64.deb" for n in package.debs]),
            "dsc": ("out", [f"{package.name}_{end}" for end in (f"{stem}.dsc", "1.orig.tar.gz")]),
        }[name.rpartition("-")[2]]
        (work / folder).mkdir(exist_ok=True)
        for each in names:
            (work / folder / each).write_text(each)
        return 0, b"done\n"

    def run(self, *argv):
        """Run doit on the real dodo.py with fresh settings."""
        self.monkeypatch.setenv("BUILD_ROOT", str(self.build))
        self.monkeypatch.setattr(sys, "argv", ["doit", *argv])
        self.monkeypatch.delitem(sys.modules, "dodo", raising=False)
        context.current.cache_clear()
        try:
            dodo = importlib.import_module("dodo")
            return run_doit(self.root, vars(dodo), *argv)
        finally:
            context.current.cache_clear()

    def sums(self):
        return (self.build / "root" / "SHA256SUM").read_text()
