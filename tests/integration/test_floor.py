"""The packages of every role on a machine that has what Debian calls required, and nothing else."""

from __future__ import annotations

import os
import pathlib
import re

import pytest

from buildchain.core.layout import Layout
from buildchain.debian import archive, floor
from buildchain.debian.deb_repository import make_deb_repository
from buildchain.project import catalog, config
from buildchain.signatures import signing
from tests.integration.conftest import ROOT, require, run

pytestmark = pytest.mark.integration

PINS = catalog.load(ROOT, "default")
# mmdebstrap's: a root whose /bin is /usr/bin from the start.
MERGED = "/usr/share/mmdebstrap/hooks/merged-usr"


def test_every_role_installs_from_the_iso_alone(
    build_root: pathlib.Path, iso_tree: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """APT works from outside: not even what it needs itself is in the root."""
    require("mmdebstrap", "apt-ftparchive", "gpg")
    cache = config.load(ROOT, dict(os.environ)).cache_root
    files = archive.read_closure(build_root / "closures" / f"{floor.NAME}.json")
    layout = Layout(ROOT, tmp_path / "build", cache, "metalk8s")
    archive.list_closure(layout, floor.NAME, files, ())
    tmp_path.chmod(0o755)
    with signing.signer(Layout(ROOT, layout.build, tmp_path / "key", "metalk8s"), "") as signer:
        machine = make_deb_repository(
            tmp_path / "machine",
            archive.link_closure(layout, floor.NAME, tmp_path / "debs"),
            signer,
            suite=PINS.suite,
            architecture=PINS.architecture,
            epoch=PINS.content_epoch,
        )
        keyring, _ = signer.export(tmp_path, "machine")
    names = sorted({name for names in PINS.debian_roles.values() for name in names})
    root = tmp_path / "root"
    run(
        "mmdebstrap", "--variant=required", "--mode=root", f"--hook-dir={MERGED}",
        f"--include={','.join(names)}", '--aptopt=APT::Sandbox::User "root"', PINS.suite, root,
        f"deb [signed-by={keyring}] copy:{machine} {PINS.suite} main",
        f"deb [signed-by={iso_tree}/keys/metalk8s.asc] copy:{iso_tree}/packages/debian/metalk8s "
        f"{PINS.suite} main",
    )  # fmt: skip
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    installed = set(re.findall(r"(?m)^Package: (\S+)\nStatus: install ok installed$", status))
    assert set(names) <= installed
    assert not installed & {"apt", "perl", "systemd"}, "what no minimal machine has to have"
    # One that has systemd and APT is as complete to the packages: nothing of the ISO wants more.
    assert run("chroot", root, "dpkg", "--audit") == ""
    assert "Kubernetes v1.20.2" in run("chroot", root, "kubelet", "--version")
