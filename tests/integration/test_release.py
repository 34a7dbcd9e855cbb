"""A release by a test key: built cold and twice, verified by two programs, and made once more.

The last time on a machine that nobody prepared, by another user, at another path, in another time
zone, and the key is on a third machine, which has gpg and no network.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from buildchain.core import process, report
from buildchain.core.errors import CommandError
from buildchain.core.layout import Layout
from buildchain.project import context as contexts
from buildchain.quality import fresh, unprepared
from buildchain.quality.fresh import Machine
from buildchain.release import artefacts
from tests.integration import tagged as tagging
from tests.integration.conftest import ROOT, require, run
from tests.integration.tagged import TARGET, Tagged

pytestmark = [pytest.mark.integration, pytest.mark.soak]

BEFORE = "2.4.0-dev"  # version of the ISO that the ring has
STEM = f"metalk8s-{TARGET}"
FILES = {
    *(f"{STEM}{end}" for end in (".iso", "-sources.iso", ".spdx.json", ".cdx.json")),
    *(f"{STEM}.iso.blocks{end}" for end in ("", ".sig")),
    *(f"{STEM}-provenance.json{end}" for end in ("", ".sig")),
    *(f"{STEM}-{what}" for what in ("changelog.md", "inputs.tar", "documents.tar.gz")),
    *(f"{STEM}-difference.{end}" for end in ("html", "json")),
    *(f"{STEM}-from-{BEFORE}.update", "metalk8s.gpg", "release.json"),
}
LISTS = {"SHA256SUM", "SHA256SUM.sig"}
VERIFY = "gpgv --keyring ./metalk8s.gpg SHA256SUM.sig SHA256SUM && sha256sum --strict -c SHA256SUM"
# As root what setup installs; then as somebody who may talk to the engine and nothing else.
AS_SOMEBODY = """\
place=$1
shift
git config --system safe.directory '*'
./doit.sh setup
id somebody >/dev/null 2>&1 || useradd --home-dir "$place/home" --uid 4242 somebody
chown -R somebody: "$place"
exec setpriv --reuid somebody --regid somebody --groups "$(stat -Lc %g /run/docker.sock)" \\
    --inh-caps=-all env USER=somebody LOGNAME=somebody \\
    sh -c 'umask 077; exec ./doit.sh "$@"' sh "$@"
"""
SIGN = 'cd "$0"; tar -xf request.tar; sh metalk8s-*-signing-request/sign.sh answer.tar'
BUILT = ("iso", "sources_iso", "inputs")
ROUNDS = 9  # more would be no progress


@pytest.fixture(scope="module")
def released(
    iso: pathlib.Path, build_root: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tagged]:
    """Make the release, with everything that it can have."""
    with (
        tagging.key_home() as home,
        tagging.tagged(tmp_path_factory.mktemp("released"), home) as found,
    ):
        options = ("--previous", iso, "--update-from", iso, "--key")
        words = ("release", *options, build_root / "keys/metalk8s.gpg")
        found.checkout.succeeds("-n", "2", *map(str, words), **found.settings())
        yield found


def layout_of(folder: pathlib.Path, released: Tagged) -> Layout:
    settings = {**released.checkout.environment, "BUILD_ROOT": str(folder / "_build")}
    return contexts.load(folder, settings).layout


def test_all_of_it_verified_by_two_programs(released: Tagged, tmp_path: pathlib.Path) -> None:
    require("gpgv", "sha256sum")
    folder = layout_of(released.checkout.folder, released).release
    assert {path.name for path in folder.iterdir()} == FILES | LISTS
    there = tmp_path / "there"
    run("cp", "-a", folder, there)
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    said = run("sh", "-c", VERIFY, cwd=there, env=environment)
    assert set(said.splitlines()) == {f"{name}: OK" for name in FILES}


def test_its_update_pack(released: Tagged, iso: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = layout_of(released.checkout.folder, released).release
    script = released.checkout.folder / "salt/scripts/apply-update.sh"
    words = ("--key", folder / "metalk8s.gpg", "--from", iso)
    run("sh", script, *words, folder / f"{STEM}-from-{BEFORE}.update", tmp_path / "new")
    run("cmp", folder / f"{STEM}.iso", tmp_path / "new" / f"{STEM}.iso")


@dataclasses.dataclass(frozen=True)
class Office:
    """Machine B: a minimal Debian with gpg, and a desk on which requests are laid."""

    root: pathlib.Path
    desk: pathlib.Path

    def sign(self, request: pathlib.Path, answer: pathlib.Path) -> None:
        """Sign what is asked for, without a network and without anything of the project."""
        shutil.copyfile(request, self.desk / "request.tar")
        settings = {"GNUPGHOME": str(self.desk / "gnupg"), "HOME": "/root"}
        command = ("sh", "-euc", SIGN, str(self.desk))
        argv = unprepared.argv_in_root(self.root, self.desk, settings, command)
        process.run(["unshare", "--net", *argv])
        shutil.copyfile(self.desk / "answer.tar", answer)
        for name in ("request.tar", "answer.tar"):
            (self.desk / name).unlink()
        run("rm", "-rf", *self.desk.glob("metalk8s-*"))


@pytest.fixture(scope="module")
def office(released: Tagged) -> Iterator[Office]:
    """Provide the machine that has the secret key, a copy of it."""
    require("mmdebstrap", "unshare")
    catalog = contexts.load(ROOT, os.environ).catalog
    with tempfile.TemporaryDirectory(prefix="mk8s-b-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        (folder / "desk").mkdir()
        fresh.make_minimal(catalog, folder / "apt", folder / "root", ("gpg", "gpg-agent"))
        run("gpgconf", "--homedir", released.home, "--kill", "all")
        run("cp", "-a", released.home, folder / "desk/gnupg")
        yield Office(folder / "root", folder / "desk")
        run("rm", "-rf", "--one-file-system", folder / "root")


def in_rounds(machine: Machine, office: Office, key: str) -> int:
    """Build on machine A, which has the public half alone; return how often B was asked."""
    home = machine.place / "home"
    settings = {
        "SIGNING_KEY": key,
        "SIGNING_PUBLIC_KEY": str(home / "release-keys.gpg"),
        "TZ": "Pacific/Kiritimati",
    }

    def doit(*words: str) -> None:
        machine.run(["sh", "-euc", AS_SOMEBODY, "sh", str(machine.place), *words], settings)

    for number in range(ROUNDS):
        try:
            doit("-n", "2", *BUILT)
        except CommandError as error:
            if error.status != report.WAITS:
                raise
        else:
            return number
        doit("sign_request", "--output", str(home / "request.tar"))
        office.sign(home / "request.tar", home / "answer.tar")
        doit("sign_import", str(home / "answer.tar"))
    raise AssertionError(f"signatures are wanted after {ROUNDS} rounds")


def test_another_machine_whose_key_is_elsewhere(released: Tagged, office: Office) -> None:
    """Each file of the release that a build leaves is the same, bit for bit."""
    here = layout_of(released.checkout.folder, released)
    catalog = contexts.load(ROOT, os.environ).catalog
    with fresh.machine(here, catalog, "git") as machine:
        keys = machine.place / "home/release-keys.gpg"
        run("gpg", "--homedir", released.home, "--output", keys, "--export", released.key)
        assert in_rounds(machine, office, released.key) > 0
        there = layout_of(machine.checkout, released)
        plan = artefacts.planned(there, TARGET, released.key, is_compared=False)
        differing = [
            artefact.file
            for artefact in plan
            if artefact.source is not None
            and not same(here.release / artefact.file, artefact.source)
        ]
    assert differing == []


def same(one: pathlib.Path, other: pathlib.Path) -> bool:
    try:
        process.run(["cmp", "--silent", one, other])
    except CommandError:
        return False
    return True
