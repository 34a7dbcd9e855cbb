"""The package repositories on the ISO: closed for every role, trusted, and the same every time."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pytest

from buildchain.core.errors import ContentError
from buildchain.core.layout import Layout
from buildchain.debian.deb_repository import COMPONENT, argv_for_release
from buildchain.project import catalog
from buildchain.repositories import closures
from buildchain.signatures import signing
from tests.integration.conftest import ROOT, require, run
from tests.integration.test_iso import APT_SOURCE, in_clean_root

pytestmark = pytest.mark.integration

PINS = catalog.load(ROOT, "default")
OURS = {name for package in PINS.packages for name in package.debs}
# Runs every command of our installed packages, as it tells its version.
TELL_ALL = r"""
tell() {
    case $1 in
    /opt/cni/bin/*) CNI_COMMAND=VERSION "$1" </dev/null ;;
    */containerd-shim-runc-v2) "$1" -v ;;
    */etcdctl) "$1" version ;;
    */kubectl) "$1" version --client ;;
    */kubeadm) "$1" version ;;
    *) "$1" --version ;;
    esac
}
for package in $OURS; do
    dpkg-query -W -f '${Status}\n' $package 2>/dev/null | grep -q 'ok installed' || continue
    for file in $(dpkg-query -L $package); do
        case $file in
        /usr/bin/*|/usr/sbin/*|/opt/cni/bin/*)
            [ -x $file ] && [ ! -d $file ] || continue
            tell $file >/tmp/told 2>&1 || { echo "$file fails:"; cat /tmp/told; exit 1; }
            echo "told $file"
        ;;
        esac
    done
done
"""


# `test_fleet.py` installs masters and workers; a soak each role by itself.
@pytest.mark.parametrize(
    "role",
    [role if role in ("bootstrap", "node") else pytest.param(role, marks=pytest.mark.soak)
     for role in catalog.ROLES],
)  # fmt: skip
def test_every_role_installs_from_the_iso_alone(
    base_image: str, iso_tree: pathlib.Path, role: str
) -> None:
    names = PINS.debian_roles[role]
    said = in_clean_root(
        base_image,
        iso_tree,
        f"{APT_SOURCE}apt-get -q -y --no-install-recommends install {' '.join(names)}\n"
        f"apt-get check\nOURS='{' '.join(sorted(OURS))}'\n{TELL_ALL}",
    )
    told = set(re.findall(r"^told (\S+)$", said, re.MULTILINE))
    expected = {"/usr/bin/containerd", "/usr/bin/ctr", "/usr/bin/kubelet", "/usr/bin/salt-call"}
    expected |= {"/opt/cni/bin/bridge", "/usr/bin/salt-minion"}
    if role in ("bootstrap", "master"):
        expected.add("/usr/bin/kubectl")
    if role in ("bootstrap", "etcd"):
        expected.add("/usr/bin/etcdctl")
    assert expected <= told


@pytest.fixture(scope="module")
def editable(
    build_root: pathlib.Path, iso_tree: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Layout, pathlib.Path, signing.Signer]]:
    """Return a layout with what every machine has, an index to edit, a signer of its own."""
    require("apt-get", "apt-ftparchive", "gpg")
    folder = tmp_path_factory.mktemp("closure")
    layout = Layout(ROOT, folder / "build", folder / "cache", "metalk8s")
    layout.floor_status.parent.mkdir(parents=True)
    layout.floor_status.write_bytes((build_root / "floor" / "status").read_bytes())
    repo = folder / "repository"
    (repo / "dists" / PINS.suite / COMPONENT / "binary-amd64").mkdir(parents=True)
    with signing.signer(layout, "") as signer:
        signer.export(folder, "key")
        yield layout, repo, signer


def write_index(layout: Layout, repo: pathlib.Path, signer: signing.Signer, text: str) -> None:
    """Write and sign the index of a repository whose packages nobody looks at."""
    dist = repo / "dists" / PINS.suite
    (dist / COMPONENT / "binary-amd64" / "Packages").write_text(text, encoding="utf-8")
    (dist / "Release").unlink(missing_ok=True)
    (dist / "InRelease").unlink(missing_ok=True)
    argv = argv_for_release(
        f"dists/{PINS.suite}", suite=PINS.suite, architecture="amd64", label="test", epoch=1
    )
    (dist / "Release").write_text(run(*argv, cwd=repo), encoding="utf-8")
    signer.sign(dist / "Release", dist / "InRelease", epoch=1700000000, kind="clear")


def test_every_package_is_needed_and_its_absence_is_named(
    editable: tuple[Layout, pathlib.Path, signing.Signer], iso_tree: pathlib.Path
) -> None:
    layout, repo, signer = editable
    [index] = (iso_tree / "packages/debian/metalk8s/dists").rglob("Packages")
    stanzas = [s for s in index.read_text(encoding="utf-8").split("\n\n") if s.strip()]
    everything = sorted({*OURS, *(name for names in PINS.debian_roles.values() for name in names)})
    sets = {"everything": everything}
    keyring = repo.parent / "key.gpg"
    for left_out in range(-1, len(stanzas)):
        kept = [stanza for number, stanza in enumerate(stanzas) if number != left_out]
        write_index(layout, repo, signer, "\n\n".join(kept) + "\n")
        if left_out < 0:
            closures.check_debian(layout, repo, keyring, PINS.suite, sets)
            continue
        [name] = re.findall(r"^Package: (\S+)$", stanzas[left_out], re.MULTILINE)
        with pytest.raises(ContentError) as caught:
            closures.check_debian(layout, repo, keyring, PINS.suite, sets)
        assert name in caught.value.reason, name


# Ours are installed on top of what they need, upgraded to a next version, and purged.
COME_AND_GO = r"""
snapshot() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /srv \
        -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \) \
        -prune -o -path /opt -o -printf '%M %U %G %p %l\n' | sort
    [ ! -d /opt ] || find /opt -mindepth 1 # dpkg takes the empty folder along
    getent passwd
    getent group
}
export DEBIAN_FRONTEND=noninteractive
apt-get -q -y --no-install-recommends install $OTHERS
snapshot >/tmp/before
apt-get -q -y --no-install-recommends install $OURS
mkdir /tmp/next
cd /tmp/next
apt-get -q download $OURS
for deb in *.deb; do
    dpkg-deb -R "$deb" tree
    sed -i -e 's/^Version: .*/&+next/' \
        -e 's/\(metalk8s-salt\|kube[a-z]*\) (= \([^)]*\))/\1 (= \2+next)/g' tree/DEBIAN/control
    dpkg-deb --root-owner-group -Znone -b tree next.deb >/dev/null
    rm -r tree
    mv next.deb "$deb"
done
dpkg -i *.deb
dpkg --audit
apt-get check
for package in $OURS; do
    dpkg-query -W -f '${Package} ${Version} ${Status}\n' $package
done | grep -v '+next install ok installed' && exit 1
apt-get -q -y purge $OURS
snapshot >/tmp/after
diff /tmp/before /tmp/after
echo gone without a trace
"""


def test_packages_upgrade_and_leave_nothing(base_image: str, iso_tree: pathlib.Path) -> None:
    others = sorted({name for names in PINS.debian_roles.values() for name in names} - OURS)
    names = f"OTHERS='{' '.join(others)}'\nOURS='{' '.join(sorted(OURS))}'\n"
    said = in_clean_root(base_image, iso_tree, f"{APT_SOURCE}{names}{COME_AND_GO}")
    assert said.endswith("gone without a trace\n")
