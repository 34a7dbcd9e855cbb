"""A profile with mirrors of EL: other people's RPMs on the medium, locked, signed by their vendor.

The real ``./doit.sh`` builds the smallest of our packages, with the real dnf against a mirror that
stands here; a machine without network then installs a role from the repository alone.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from buildchain.project import catalog
from tests.integration import el_mirror, stub_rpms
from tests.integration.checkout import Checkout
from tests.integration.conftest import ROOT, require, run
from tests.integration.el_mirror import Key, Server
from tests.integration.stub_rpms import Stub

pytestmark = pytest.mark.integration

OURS = "metalk8s-sosreport"
MINIMAL = (Stub("bash", provides=("/bin/sh",), requires=("glibc",)), Stub("glibc"))
NEEDED = {
    "8": (Stub("sos", version="4.5", release="1.el8", requires=("python3-six",)),
          Stub("python3-six")),
    "9": (Stub("sos", version="4.7", release="1.el9", requires=("/bin/sh",)),),
}  # fmt: skip
SETTINGS = """\
[redhat]
releases = ["8", "9"]
minimal = ["bash"]
[redhat.roles]
bootstrap = []
master = []
etcd = []
node = ["metalk8s-sosreport"]
infra = []
[redhat.repositories.BaseOS]
url = "{url}/$releasever"
key = "keys/vendor-$releasever.asc"
"""


@dataclass
class Site:
    """A checkout with the profile, and the mirror it names."""

    checkout: Checkout
    pins: pathlib.Path
    mirror: pathlib.Path
    vendor: Key

    def repository(self, release: str) -> pathlib.Path:
        return self.checkout.folder / f"_build/repositories/redhat/metalk8s-el{release}"

    def packages(self, release: str) -> list[str]:
        return sorted(path.name for path in self.repository(release).glob("*.rpm"))

    def publish(self, release: str, *stubs: Stub) -> None:
        folder = self.mirror / release
        self.vendor.sign(stub_rpms.build(folder, stubs))
        self.vendor.publish(folder)


@pytest.fixture
def site(
    checkout: Checkout, tmp_path: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Return the site; the mirror is open as long as the test runs."""
    require("dnf")
    pins = checkout.folder / "buildchain/pins/mirrored"
    shutil.copytree(ROOT / "buildchain/pins/default", pins)
    text = (pins / "packages.toml").read_text(encoding="utf-8")
    tables = re.split(r"(?m)^(?=\[[a-z])", text)
    kept = [table for table in tables if re.match(rf"\[+{OURS}[\].]", table)]
    (pins / "packages.toml").write_text("".join(kept), encoding="utf-8")
    with el_mirror.key(tmp_path_factory.mktemp("vendor")) as vendor:
        (pins / "keys").mkdir()
        for release in NEEDED:
            shutil.copy(vendor.public, pins / f"keys/vendor-{release}.asc")
        made = Site(checkout, pins, tmp_path / "mirror", vendor)
        for release, stubs in NEEDED.items():
            made.publish(release, *MINIMAL, *stubs)
        with Server(made.mirror) as server:
            settings = SETTINGS.format(url=server.url)
            (pins / "redhat.toml").write_text(settings, encoding="utf-8")
            checkout.environment["PROFILE"] = "mirrored"
            yield made


def install(site: Site, release: str, root: pathlib.Path) -> str:
    """Install the role's packages into a minimal system, from the medium's repository alone."""
    (root / "var/lib/rpm").mkdir(parents=True)
    stubs = [site.mirror / release / stub.file for stub in MINIMAL]
    run("rpm", "--root", root, "--install", "--nosignature", *stubs)
    beside = root.with_name(f"{root.name}.dnf")
    (beside / "repos").mkdir(parents=True)
    build = site.checkout.folder / "_build"
    keys = [build / "keys/metalk8s.asc", build / f"repositories/redhat/keys/{release}/BaseOS.asc"]
    (beside / "repos/iso.repo").write_text(
        f"[metalk8s]\nname=MetalK8s\nbaseurl={site.repository(release).as_uri()}\n"
        f"gpgcheck=1\nrepo_gpgcheck=1\ngpgkey={' '.join(key.as_uri() for key in keys)}\n",
        encoding="utf-8",
    )
    (beside / "dnf.conf").write_text("[main]\n", encoding="utf-8")
    options = {"reposdir": beside / "repos", "varsdir": beside / "none",
               "cachedir": beside / "cache", "persistdir": beside / "persist",
               "tsflags": "noscripts"}  # fmt: skip
    run(
        *("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("dnf", "--assumeyes", f"--config={beside}/dnf.conf", "--noplugins"),
        *(f"--installroot={root}", f"--releasever={release}", "--forcearch=x86_64"),
        *(f"--setopt={key}={value}" for key, value in options.items()),
        *("install", OURS),
    )
    listed = run("rpm", "--root", root, "--query", "--all", "--queryformat", "%{NAME}-%{VERSION} ")
    return " ".join(sorted(set(listed.split()) - {"bash-1", "glibc-1"}))


def test_a_profile_with_mirrors(site: Site, tmp_path: pathlib.Path) -> None:
    checkout = site.checkout
    version = next(
        package.version
        for package in catalog.load(checkout.folder, "mirrored").packages
        if package.name == OURS
    )
    checkout.succeeds("_package_check:redhat")
    ours = f"{OURS}-{version}-1.noarch.rpm"
    assert site.packages("8") == [ours, "python3-six-1-1.noarch.rpm", "sos-4.5-1.el8.noarch.rpm"]
    assert site.packages("9") == [ours, "sos-4.7-1.el9.noarch.rpm"]
    assert "RESOLVE" not in checkout.succeeds("_package_check:redhat").replace("--  RESOLVE", "")
    for release in NEEDED:
        key = checkout.folder / f"_build/repositories/redhat/keys/{release}/BaseOS.asc"
        assert key.read_bytes() == site.vendor.public.read_bytes()
        expected = f"{OURS}-{version} sos-{NEEDED[release][0].version}"
        found = install(site, release, tmp_path / f"root-{release}")
        assert {*found.split()} - {"python3-six-1"} == {
            *expected.split(),
            *(word for word in found.split() if word.startswith("gpg-pubkey")),
        }

    # A package that somebody takes away is named, with the remedy.
    gone = site.repository("8") / "sos-4.5-1.el8.noarch.rpm"
    content = gone.read_bytes()
    gone.unlink()
    (checkout.folder / "_build/receipts/package_check.redhat.json").unlink()
    said = subprocess.run(
        [str(ROOT / ".venv/bin/python"), "-c", CHECK], cwd=checkout.folder, env=checkout.env(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "no package sos (sos-4.5-1.el8.noarch.rpm) (for every set)" in said.stderr, said
    gone.write_bytes(content)

    # Locked: the mirror moves on, the build does not; `strict` insists.
    assert "node-el8: sos 4.5-1.el8 is new" in checkout.succeeds("lock:redhat")
    locked = json.loads((site.pins / "redhat.lock").read_text(encoding="utf-8"))
    assert sorted(locked) == ["node-el8", "node-el9"]
    site.publish("8", Stub("sos", version="4.6", release="1.el8"))
    checkout.succeeds("_package_check:redhat", LOCK_POLICY="strict")
    assert "sos-4.5-1.el8.noarch.rpm" in site.packages("8")
    said = checkout.succeeds("lock:redhat")
    assert "node-el8: sos 4.5-1.el8 -> 4.6-1.el8" in said
    assert "node-el8: python3-six 1-1 is gone" in said
    checkout.succeeds("_package_check:redhat", LOCK_POLICY="strict")
    assert site.packages("8") == [ours, "sos-4.6-1.el8.noarch.rpm"]

    # From nothing, without network: what is locked is in the store.
    shutil.rmtree(checkout.folder / "_build/repositories")
    shutil.rmtree(checkout.folder / "_build/closures")
    done = checkout.doit("_package_check:redhat", prefix=("unshare", "--net"))
    assert done.returncode == 0, done.stdout
    assert site.packages("8") == [ours, "sos-4.6-1.el8.noarch.rpm"]


# The check alone, on a repository that was spoilt since it was made.
CHECK = """
from buildchain.repositories import steps
from buildchain.project.context import current
steps._check_redhat(current())
"""


def test_a_key_that_is_missing(site: Site) -> None:
    (site.pins / "keys/vendor-9.asc").unlink()
    said = site.checkout.fails("_package_check:redhat")
    assert re.search(r"redhat\.toml: no key .*/keys/vendor-9\.asc", said)
