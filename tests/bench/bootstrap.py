"""How much longer ``bootstrap.sh`` takes than ``kubeadm init`` on an equal node, in the same run.

Usage: ``python -m tests.bench.bootstrap [--rounds 1]``. Needs root, Docker, ``skopeo`` and an ISO.
Both begin on a clean node of the test bed and end when the node is Ready. kubeadm finds its
packages installed, the container engine running and every image loaded; ours finds nothing but the
ISO. They take turns; the median of the rounds' ratios counts.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from tests.bench.verdict import at_most
from tests.testbed.machine import MOUNT, SITE, Machine, docker, started

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = 6.0  # times kubeadm init
GOAL = 3.0
REPOSITORY = "kubeadm.invalid"
PACKAGES = "kubeadm kubectl kubelet metalk8s-cni-plugins metalk8s-containerd metalk8s-runc"
# As an operator would who has nothing but the ISO.
INSTALL = """
set -eu
cat >/etc/apt/sources.list.d/medium.sources <<END
Types: deb
URIs: file:{mount}/packages/debian/metalk8s
Suites: bookworm
Components: main
Signed-By: {mount}/keys/metalk8s.asc
END
apt-get -q update
DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install {packages}
mkdir -p /etc/containerd /etc/cni/net.d
cat >/etc/containerd/config.toml <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{repository}/pause:{pause}"
restrict_oom_score_adj = true
END
cat >/etc/cni/net.d/10-bridge.conflist <<END
{{"cniVersion": "0.4.0", "name": "bench", "plugins": [
  {{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true,
    "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "10.233.0.0/24"}}]]}}}},
  {{"type": "portmap", "capabilities": {{"portMappings": true}}}}]}}
END
sysctl -qw net.ipv4.ip_forward=1
systemctl restart containerd
systemctl enable -q kubelet
"""
CONFIGURATION = """\
apiVersion: kubeadm.k8s.io/v1beta2
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: {address}, bindPort: 6443}}
nodeRegistration: {{name: bootstrap, criSocket: /run/containerd/containerd.sock}}
---
apiVersion: kubeadm.k8s.io/v1beta2
kind: ClusterConfiguration
kubernetesVersion: v{version}
imageRepository: {repository}
etcd: {{local: {{imageTag: "{etcd}"}}}}
networking: {{podSubnet: 10.233.0.0/16, serviceSubnet: 10.96.0.0/12}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
evictionHard: {eviction}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {{maxPerCore: 0}}
"""
# Its checks ask for crictl, which is not to be had; CoreDNS is not on the ISO.
INIT = """
kubeadm init --config /root/kubeadm.yaml --skip-phases=preflight,addon/coredns
"""
READY = "wait --for=condition=Ready node/bootstrap --timeout=300s"

Node = Callable[[], contextlib.AbstractContextManager[Machine]]


def main() -> int:
    """Measure and tell; 1 when ours takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    build = pathlib.Path(os.environ.get("METALK8S_BUILD_ROOT", ROOT / "_build"))
    iso = pathlib.Path(os.environ.get("METALK8S_ISO", build / "metalk8s.iso"))
    node = functools.partial(_node, build, iso)
    ratios = []
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        images, versions = _images(build / "root", pathlib.Path(scratch))
        for number in range(1, rounds + 1):
            theirs = kubeadm(node, images, versions)
            ours = bootstrap(node)
            ratios.append(ours / theirs)
            print(
                f"round {number}: kubeadm init {theirs:6.1f} s   bootstrap.sh {ours:6.1f} s   "
                f"{ratios[-1]:.2f} times"
            )
    ratio = statistics.median(ratios)
    print(f"we go for {GOAL:g} times")
    return 0 if at_most("bootstrap.sh / kubeadm init", ratio, TARGET) else 1


@contextlib.contextmanager
def _node(build: pathlib.Path, iso: pathlib.Path) -> Iterator[Machine]:
    receipts = build / "receipts" / "testbed_image.json"
    image = json.loads(receipts.read_text(encoding="utf-8"))["facts"]["reference"]
    versions = json.loads((build / "root/salt/metalk8s/versions.json").read_text(encoding="utf-8"))
    version = versions["metalk8s"]["version"]
    with started(image, iso, build / "keys" / "metalk8s.gpg", version) as (machine, _):
        yield machine


def bootstrap(node: Node) -> float:
    """Return how many seconds ours takes until the node is Ready."""
    with node() as machine:
        began = time.monotonic()
        machine.bootstrap()
        machine.kubectl(READY)
        return time.monotonic() - began


def kubeadm(node: Node, images: pathlib.Path, versions: dict[str, str]) -> float:
    """Return how many seconds kubeadm takes, on a node that has what it wants."""
    with node() as machine:
        machine.shell(
            INSTALL.format(
                mount=MOUNT, packages=PACKAGES, repository=REPOSITORY, pause=versions["pause"]
            )
        )
        docker("cp", images, f"{machine.name}:/root/images.tar")
        machine.shell("ctr --namespace k8s.io images import /root/images.tar")
        text = CONFIGURATION.format(
            address=machine.address,
            version=versions["kube-apiserver"],
            repository=REPOSITORY,
            etcd=versions["etcd"],
            eviction=json.dumps(SITE["kubelet"]["eviction_hard"]),
        )
        machine.write("/root/kubeadm.yaml", text)
        began = time.monotonic()
        done = machine.call("sh", "-c", INIT)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        machine.kubectl(READY)
        return time.monotonic() - began


def _images(tree: pathlib.Path, scratch: pathlib.Path) -> tuple[pathlib.Path, dict[str, str]]:
    """Put the images of the ISO into one archive, by the names that kubeadm gives them.

    Ours are made for accounts of their own; what kubeadm writes counts on root.
    """
    versions = {}
    references = []
    for folder in sorted((tree / "images").iterdir()):
        if not folder.name.startswith(("kube-", "etcd", "pause")):
            continue
        [source] = folder.iterdir()
        versions[folder.name] = source.name
        tag = f"v{source.name}" if folder.name.startswith("kube-") else source.name
        reference = f"{REPOSITORY}/{folder.name}:{tag}"
        argv = ["skopeo", "--insecure-policy", "copy", "-q", f"dir:{source}"]
        subprocess.run([*argv, f"docker-daemon:{reference}"], check=True)
        docker("build", "--quiet", "--tag", reference, "-", text=f"FROM {reference}\nUSER 0\n")
        references.append(reference)
    archive = scratch / "images.tar"
    docker("save", "--output", archive, *references)
    docker("image", "rm", *references)
    return archive, versions


if __name__ == "__main__":
    sys.exit(main())
