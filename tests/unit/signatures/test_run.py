"""The product's own graph with the key at hand, and in rounds with the key elsewhere."""

import dataclasses
import gc
import os
import shutil
import subprocess
import warnings

import pytest

from buildchain.core import report
from buildchain.core.receipt import files
from buildchain.project import config
from tests.unit import engine_api, fakes
from tests.unit.workshop import TELL, Machine

# Calls what rpmsign is told to call instead of gpg, with the package as its header.
RPMSIGN = """
import os, pathlib, shlex, subprocess
defines = dict(argv[i + 1].split(" ", 1) for i, word in enumerate(argv) if word == "--define")
failed = 0
for name in argv[1 + 2 * len(defines) + 0:]:
    rpm = pathlib.Path(name)
    signature = rpm.with_name("signature")
    words = defines["__gpg_sign_cmd"]
    for key, value in {**defines, "__signature_filename": signature,
                       "__plaintext_filename": rpm}.items():
        words = words.replace("%{" + key + "}", str(value))
    program, *words = shlex.split(words)
    done = subprocess.run(words, executable=program)
    failed += done.returncode != 0
    if done.returncode == 0:
        rpm.write_bytes(rpm.read_bytes() + signature.read_bytes())
    signature.unlink(missing_ok=True)
sys.exit(min(failed, 1))
"""
# Locked packages are called after their content.
FIELD = """
if argv[0] == "--field":
    with open(argv[-1]) as stream:
        name, version, _ = stream.read().split("_")
    sys.exit(print(f"Package: {name}\\nVersion: {version}"))
"""
# What writes images for other tests has a clock; real ones have been told the date.
CLOCK = "import os, time\ntime.time = lambda: float(os.environ.get('SOURCE_DATE_EPOCH', 0))\n"
TASKS = ("iso", "sources_iso")


@pytest.fixture(scope="module")
def machine(root, tmp_path_factory, programs_class, development_key):
    """Provide a machine that has what a strict build needs."""
    folder = tmp_path_factory.mktemp("machine")
    with engine_api.serving() as engine, pytest.MonkeyPatch.context() as monkeypatch:
        machine = Machine(root, folder, programs_class(folder / "bin"), engine, monkeypatch)
        (machine.cache / "keys").mkdir()
        shutil.copy2(development_key, machine.cache / "keys")
        for option in config.OPTIONS:
            monkeypatch.delenv(option.name, raising=False)
        machine.programs("rpmsign", TELL + RPMSIGN)
        machine.programs("dpkg-deb", TELL + FIELD + fakes.DPKG_DEB)
        machine.programs("xorrisofs", CLOCK + fakes.mkisofs(), site=True)
        machine.fetch_locked()
        yield machine
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@dataclasses.dataclass
class Site:
    """Machine A with two ways to build, and machine B."""

    machine: Machine
    office: object
    folder: object
    rounds: int = 0

    def run(self, *argv):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            return self.machine.run(*argv)

    def near(self, name):
        """Build with the key at hand."""
        self.machine.build = self.folder / name
        with pytest.MonkeyPatch.context() as patched:
            patched.delenv("SIGNING_PUBLIC_KEY")
            patched.setenv("GNUPGHOME", str(self.office.home))
            result = self.run(*TASKS)
        assert result.status == 0, result.out + result.err
        return self.machine.build

    def exchange(self):
        """Carry a request to B and the answer back; B has a checkout every other time."""
        self.rounds += 1
        desk = self.folder / f"round-{self.rounds}"
        desk.mkdir()
        assert self.run("sign_request", "-o", str(desk / "request.tar")).status == 0
        subprocess.run(["tar", "-xf", "request.tar", "--strip-components=1"], cwd=desk, check=True)
        if self.rounds % 2 == 0:
            with pytest.MonkeyPatch.context() as patched:
                patched.setenv("GNUPGHOME", str(self.office.home))
                words = ("-o", str(desk / "answer.tar"), str(desk / "request.tar"))
                assert self.run("sign", *words).status == 0
            return desk
        env = {"PATH": os.environ["PATH"], "GNUPGHOME": str(self.office.home)}
        argv = ["sh", "sign.sh", "answer.tar"]
        subprocess.run(argv, cwd=desk, env=env, check=True, capture_output=True)
        return desk

    def import_from(self, desk):
        result = self.run("sign_import", str(desk / "answer.tar"))
        assert result.status == 0, result.out + result.err

    def far(self, name, *words):
        """Build with the key elsewhere; return the folder and what each round asked for."""
        self.machine.build = self.folder / name
        asked = []
        for _ in range(9):
            result = self.run(*words, *TASKS)
            if result.status == 0:
                return self.machine.build, asked
            assert result.status == report.WAITS, result.out + result.err
            desk = self.exchange()
            table = (desk / "table").read_text().splitlines()
            asked.append({line.split(" ", 4)[4] for line in table})
            self.import_from(desk)
        raise AssertionError(asked)


@pytest.fixture
def site(machine, office, tmp_path, monkeypatch, request):
    request.node.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
    machine.plug_in(monkeypatch)
    monkeypatch.setenv("SIGNING_KEY", " ".join(office.keys[:2]))
    monkeypatch.setenv("SIGNING_PUBLIC_KEY", str(office.export(tmp_path / "public.gpg")))
    return Site(machine, office, tmp_path)


def content(build):
    """Return everything that a build delivers, by path."""
    places = ["keys", "root", "sources", "repositories", "signed"]
    paths = [build / place for place in places]
    paths += [path for path in build.iterdir() if path.is_file() and path.name[0] != "."]
    return {
        path.relative_to(build).as_posix(): path.read_bytes()
        for path in files(paths)
        if not path.name.startswith("build.log")
    }


def test_in_rounds_it_comes_out_the_same(site):
    near = content(site.near("near"))
    folder, asked = site.far("far")
    far = content(folder)
    assert sorted(far) == sorted(near)
    assert [name for name in near if near[name] != far[name]] == []
    for name in ("metalk8s.iso", "root/MANIFEST.sig", "SHA256SUM.sig", "provenance.json.sig",
                 "sources/SHA256SUM.sig"):  # fmt: skip
        assert name in far
    product = (folder / "root" / "product.txt").read_text()
    assert "DEVELOPMENT_KEY=0\n" in product
    packages, *others = asked
    # What does not wait for another signature is asked for at once.
    assert "repositories/debian/metalk8s/dists/bookworm/Release" in packages
    assert any(name.endswith(".src.rpm") for name in packages)
    assert [sorted(names) for names in others] == [
        ["repositories/redhat/metalk8s-el8/repodata/repomd.xml", "sources/root/SHA256SUM"],
        ["root/SHA256SUM", "sources/root/MANIFEST"],
        ["root/MANIFEST", "sources/SHA256SUM"],
        ["SHA256SUM", "metalk8s.iso.blocks", "provenance.json"],
    ]
    again = site.run(*TASKS)
    assert (again.status, sorted(again.executed)) == (0, ["before", "checkout"]), again.out
    assert site.run("sign_request", "-o", "x").status == 1, "nothing waits any more"
