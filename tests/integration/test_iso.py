"""The medium as its user meets it: mounted, network cut, nothing else at hand."""

from __future__ import annotations

import hashlib
import json
import pathlib
import shutil
import subprocess

import pytest

from buildchain.project import catalog
from tests.integration.conftest import ROOT, Registry, require, run

pytestmark = pytest.mark.integration

IMAGES = {
    "dns-authority": "1.0.0",
    "dns-cache": "1.17.1",
    "load-balancer": "1.0.0",
    "etcd": "3.4.23",
    "haproxy": "2.6.12",
    "ingress": "1.0.0",
    "keepalived": "2.2.7",
    "kube-apiserver": "1.20.2",
    "kube-controller-manager": "1.20.2",
    "kube-proxy": "1.20.2",
    "network-agent": "1.0.0",
    "kube-scheduler": "1.20.2",
    "nginx": "1.22.1",
    "pause": "3.4",
    "salt-master": "3008.2",
}


def test_signature_of_the_iso_holds(iso: pathlib.Path) -> None:
    require("gpgv", "sha256sum")
    folder = iso.parent
    key = folder / "keys" / "metalk8s.gpg"
    run("gpgv", "--keyring", key, folder / "SHA256SUM.sig", folder / "SHA256SUM")
    run("sha256sum", "--check", "--strict", "SHA256SUM", cwd=folder)
    run("sh", ROOT / "salt/scripts/verify.sh", "--key", key, iso)


def test_a_damaged_copy_is_repaired(iso: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """From the ISO, by the list beside it; what is damaged is said in bytes."""
    require("gpgv", "sha256sum")
    key, copy = iso.parent / "keys" / "metalk8s.gpg", tmp_path / "copy.iso"
    run("gpgv", "--keyring", key, f"{iso}.blocks.sig", f"{iso}.blocks")
    shutil.copyfile(iso, copy)
    with copy.open("r+b") as stream:
        stream.seek(100 << 20)
        stream.write(bytes(512))
        stream.truncate(iso.stat().st_size - 5000)
    repair = (*("sh", ROOT / "salt/scripts/verify.sh", "--key", key), "--repair", "--from", iso)
    said = run(*repair, copy)
    assert f"damaged    bytes {100 << 20} to {(100 << 20) + 65535}\n" in said
    assert "image      copy.iso is what was signed" in said
    run("cmp", iso, copy)


def test_signature_on_the_iso_covers_every_file(
    iso_tree: pathlib.Path, build_root: pathlib.Path
) -> None:
    require("gpgv", "sha256sum")
    # The key comes another way: it is not the one on the medium that decides.
    key = build_root / "keys" / "metalk8s.gpg"
    run("gpgv", "--keyring", key, iso_tree / "SHA256SUM.sig", iso_tree / "SHA256SUM")
    run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUM", cwd=iso_tree)
    lines = (iso_tree / "SHA256SUM").read_text(encoding="utf-8").splitlines()
    covered = {line.split("  ", 1)[1] for line in lines}
    present = {
        path.relative_to(iso_tree).as_posix() for path in iso_tree.rglob("*") if path.is_file()
    }
    assert present - covered == {"MANIFEST", "MANIFEST.sig", "SHA256SUM", "SHA256SUM.sig"}
    said = run("sh", iso_tree / "verify.sh", "--key", key, iso_tree)
    assert f"{len(present) - 2} are what was signed" in said


def test_a_changed_checksum_file_is_refused(iso_tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    require("gpgv")
    changed = tmp_path / "SHA256SUM"
    changed.write_bytes((iso_tree / "SHA256SUM").read_bytes().replace(b"a", b"b", 1))
    argv = [
        "gpgv",
        "--keyring",
        iso_tree / "keys/metalk8s.gpg",
        iso_tree / "SHA256SUM.sig",
        changed,
    ]
    assert subprocess.run(argv, capture_output=True, check=False).returncode != 0


def test_product_names_no_machine_and_no_moment(iso_tree: pathlib.Path) -> None:
    lines = (iso_tree / "product.txt").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split("=", 1) for line in lines)
    assert set(fields) == {
        "NAME",
        "VERSION",
        "SHORT_VERSION",
        "BUILD_VERSION",
        "GIT",
        "DEVELOPMENT_RELEASE",
        "DEVELOPMENT_KEY",
        "ARCHIVE_LAYOUT_VERSION",
    }
    assert fields["NAME"] == "MetalK8s"
    assert fields["VERSION"].startswith(fields["SHORT_VERSION"])
    assert fields["BUILD_VERSION"].startswith(fields["SHORT_VERSION"])


def test_secret_key_is_not_on_the_iso(iso_tree: pathlib.Path) -> None:
    for path in (iso_tree / "keys").iterdir():
        assert b"PRIVATE KEY" not in path.read_bytes()
        listed = run("gpg", "--batch", "--show-keys", "--with-colons", path)
        assert "\nsec:" not in f"\n{listed}"


def test_volume_id(iso: pathlib.Path, version: str) -> None:
    # ISO 9660: the primary volume descriptor is sector 16, the volume id 32 bytes from byte 40.
    with iso.open("rb") as stream:
        stream.seek(16 * 2048 + 40)
        assert stream.read(32).decode().rstrip() == f"MetalK8s {version}"


def test_images_are_those_of_the_pins(iso_tree: pathlib.Path) -> None:
    found = {
        f"{tag.parent.name}:{tag.name}"
        for tag in (iso_tree / "images").glob("*/*")
        if (tag / "manifest.json").is_file()
    }
    assert found == {f"{name}:{tag}" for name, tag in IMAGES.items()}


def test_every_downloaded_package_is_in_the_record(iso_tree: pathlib.Path) -> None:
    record = json.loads((iso_tree / "lock/debian.lock").read_bytes())
    recorded = {file["sha256"] for file in record["node"]["packages"]}
    pins = catalog.load(ROOT, "default")
    ours = tuple(f"{name}_" for package in pins.packages for name in package.debs)
    pool = (iso_tree / "packages/debian/metalk8s/pool").rglob("*.deb")
    shipped = {
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in pool
        if not path.name.startswith(ours)
    }
    assert shipped == recorded


def test_layers_are_shared(build_root: pathlib.Path) -> None:
    places: dict[str, set[int]] = {}
    for path in (build_root / "root" / "images").rglob("*"):
        if len(path.name) == 64:
            places.setdefault(path.name, set()).add(path.stat().st_ino)
    assert all(len(inodes) == 1 for inodes in places.values())


@pytest.mark.parametrize(("name", "tag"), IMAGES.items())
def test_images_are_labelled_and_complete(iso_tree: pathlib.Path, name: str, tag: str) -> None:
    tree = iso_tree / "images" / name / tag
    manifest = json.loads((tree / "manifest.json").read_bytes())
    for blob in (manifest["config"], *manifest["layers"]):
        digest = blob["digest"].removeprefix("sha256:")
        content = (tree / digest).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (digest, blob["size"])
    config = json.loads((tree / manifest["config"]["digest"].removeprefix("sha256:")).read_bytes())
    labels = config["config"]["Labels"]
    assert labels["org.opencontainers.image.version"] == tag
    assert labels["org.opencontainers.image.title"]
    assert labels["org.opencontainers.image.licenses"]
    assert config["config"]["Entrypoint"]
    if name not in ("keepalived", "kube-proxy", "network-agent"):
        assert config["config"]["User"].split(":")[0] not in ("", "0", "root")


@pytest.mark.parametrize(("name", "tag"), IMAGES.items())
def test_pull_by_tag_and_by_digest(
    registry: Registry, iso_tree: pathlib.Path, tmp_path: pathlib.Path, name: str, tag: str
) -> None:
    tree = iso_tree / "images" / name / tag
    manifest = (tree / "manifest.json").read_bytes()
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    for how, wanted in (("tag", tag), ("digest", digest)):
        pulled = tmp_path / how
        registry.inside(
            *("skopeo", "--insecure-policy", "copy", "--quiet", "--preserve-digests"),
            *("--src-tls-verify=false", registry.reference(name, wanted), f"dir:{pulled}"),
        )
        names = {path.name for path in tree.iterdir()}
        assert {path.name for path in pulled.iterdir()} == names
        for part in names:
            assert (pulled / part).read_bytes() == (tree / part).read_bytes(), part


@pytest.mark.parametrize(
    ("name", "argv", "said"),
    [
        ("kube-apiserver", ["--version"], "Kubernetes v1.20.2+metalk8s.1"),
        ("kube-controller-manager", ["--version"], "Kubernetes v1.20.2+metalk8s.1"),
        ("kube-scheduler", ["--version"], "Kubernetes v1.20.2+metalk8s.1"),
        ("kube-proxy", ["--version"], "Kubernetes v1.20.2+metalk8s.1"),
        ("network-agent", ["--help"], "usage: metalk8s-pod-network"),
        ("dns-authority", ["--version"], "Knot DNS"),
        ("dns-cache", ["-V"], "Version 1.17.1"),
        ("load-balancer", ["--help"], "usage: metalk8s-load-balancer"),
        ("ingress", ["-v"], "HAProxy version 2.6.12"),
        ("etcd", ["--version"], "etcd Version: 3.4.23"),
        ("pause", ["-v"], "pause.c v3."),
    ],
)
def test_pulled_images_run(registry: Registry, name: str, argv: list[str], said: str) -> None:
    reference = f"metalk8s-test/{name}:pulled"
    registry.inside(
        *("skopeo", "--insecure-policy", "copy", "--quiet", "--src-tls-verify=false"),
        *(registry.reference(name, IMAGES[name]), f"docker-daemon:{reference}"),
    )
    try:
        options = ["--rm", "--network", "none", "--read-only", "--cap-drop", "ALL"]
        assert said in run("docker", "run", *options, reference, *argv)
    finally:
        run("docker", "image", "rm", "--force", reference)


def in_clean_root(image: str, tree: pathlib.Path, script: str) -> str:
    """Run a script in a clean Debian 12 without a network, the ISO mounted at /iso."""
    options = ["--rm", "--network", "none", "--volume", f"{tree}:/iso:ro"]
    return run("docker", "run", *options, image, "sh", "-euc", script)


APT_SOURCE = """
cat > /etc/apt/sources.list.d/iso.sources <<END
Types: deb
URIs: file:/iso/packages/debian/metalk8s
Suites: bookworm
Components: main
Signed-By: /iso/keys/metalk8s.asc
END
export DEBIAN_FRONTEND=noninteractive
apt-get -q update -o APT::Update::Error-Mode=any
"""


def test_apt_installs_from_the_iso_alone(base_image: str, iso_tree: pathlib.Path) -> None:
    said = in_clean_root(
        base_image,
        iso_tree,
        f"{APT_SOURCE}"
        "apt-get -q -y install kubelet kubectl kubeadm metalk8s-containerd metalk8s-cni-plugins\n"
        "apt-get check\n"
        "kubelet --version; kubectl version --client --short; kubeadm version -o short\n"
        "containerd --version; runc --version; dpkg-query -W kubelet\n",
    )
    assert "Kubernetes v1.20.2+metalk8s.1" in said
    assert "Client Version: v1.20.2+metalk8s.1" in said
    assert "kubelet\t1.20.2-2" in said


def test_apt_refuses_a_changed_package(
    base_image: str, iso_tree: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    copy = tmp_path / "iso"
    shutil.copytree(iso_tree / "packages/debian", copy / "packages/debian")
    shutil.copytree(iso_tree / "keys", copy / "keys")
    [package] = (copy / "packages/debian/metalk8s/pool").rglob("kubectl_*.deb")
    package.chmod(0o644)
    content = bytearray(package.read_bytes())
    content[-100] ^= 1
    package.write_bytes(content)
    script = f"{APT_SOURCE}! apt-get -q -y install kubectl 2>&1"
    assert "Hash Sum mismatch" in in_clean_root(base_image, copy, script)
