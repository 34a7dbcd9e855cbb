"""Our control plane is kubeadm's, but for what is meant to differ, each with its reason.

Ours is what ``tests/render`` has seen rendered (its goldens); kubeadm is the package of the ISO.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import yaml

from tests.integration import kubeadm
from tests.integration.conftest import ROOT, require

pytestmark = pytest.mark.integration

GOLDEN = ROOT / "tests/render/golden/debian-12"
DIFFERENCES = pathlib.Path(__file__).parent / "data/kubeadm-differences.yaml"
# our file → kubeadm's
FILES = {
    "etc/kubernetes/manifests/etcd.yaml": "kubernetes/manifests/etcd.yaml",
    "etc/kubernetes/manifests/kube-apiserver.yaml": "kubernetes/manifests/kube-apiserver.yaml",
    "etc/kubernetes/manifests/kube-controller-manager.yaml": (
        "kubernetes/manifests/kube-controller-manager.yaml"
    ),
    "etc/kubernetes/manifests/kube-scheduler.yaml": "kubernetes/manifests/kube-scheduler.yaml",
    "var/lib/kubelet/config.yaml": "kubelet/config.yaml",
}


@pytest.fixture(scope="module")
def found(
    iso_tree: pathlib.Path, base_image: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Generate kubeadm's files for the machine of the goldens, and compare."""
    require("docker", "dpkg-deb")
    [package] = (iso_tree / "packages/debian").rglob("kubeadm_*.deb")
    shown = json.loads((GOLDEN / "map.json").read_text(encoding="utf-8"))
    folder = tmp_path_factory.mktemp("kubeadm")
    kubeadm.generate(
        folder,
        package,
        base_image,
        shown["node"]["name"],
        shown["networks"]["control_plane"]["address"],
        shown["kubernetes_version"],
    )
    return {
        theirs: kubeadm.differences(
            (folder / theirs).read_text(encoding="utf-8"),
            (GOLDEN / "files" / ours).read_text(encoding="utf-8"),
        )
        for ours, theirs in FILES.items()
    }


def test_differs_only_where_it_is_meant_to(found: dict[str, Any]) -> None:
    """A new difference needs a reason; a reason without a difference goes."""
    intended = yaml.safe_load(DIFFERENCES.read_text(encoding="utf-8"))
    left, idle = kubeadm.unexplained(found, intended)
    assert left == {}
    assert idle == []


def test_every_difference_has_a_reason() -> None:
    """In a sentence."""
    for entry in yaml.safe_load(DIFFERENCES.read_text(encoding="utf-8")):
        assert set(entry) == {"file", "path", "reason"}
        assert entry["reason"].endswith(".")
