"""How much longer ``bootstrap.sh`` takes than ``kubeadm init`` on an equal machine, in one run.

Usage: ``python -m tests.bench.bootstrap [--machine container|virtual] [--rounds 1]``. Needs root,
Docker, ``skopeo`` and an ISO; ``qemu`` for virtual machines. Both begin on a clean machine of the
test bed and end when the node is Ready. kubeadm finds its packages installed, the container engine
running and every image loaded; ours finds nothing but the ISO. They take turns; the median of the
rounds' ratios counts. Then ours runs once more, and has nothing to do.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from tests.bench.verdict import at_most
from tests.testbed import disk, virtual
from tests.testbed.machine import IMAGE, MOUNT, SITE, Machine, docker, started

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = 3.0  # times kubeadm init
SECOND = 0.3  # times the first run
MACHINES = ("container", "virtual")
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
{engine}
END
cat >/etc/cni/net.d/10-bridge.conflist <<END
{{"cniVersion": "0.4.0", "name": "bench", "plugins": [
  {{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true,
    "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "10.233.0.0/24"}}]]}}}},
  {{"type": "portmap", "capabilities": {{"portMappings": true}}}}]}}
END
modprobe --all --quiet overlay br_netfilter nf_conntrack || true
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
controlPlaneEndpoint: {address}:6443
imageRepository: {repository}
etcd: {{local: {{imageTag: "{etcd}"}}}}
networking: {{podSubnet: 10.233.0.0/16, serviceSubnet: 10.96.0.0/12}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
{kubelet}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {{maxPerCore: 0}}
"""
# Its checks ask for crictl, which is not to be had; CoreDNS is not on the ISO.
INIT = """
kubeadm init --config /root/kubeadm.yaml --skip-phases=preflight,addon/coredns
"""
CONFIGURED = "/etc/metalk8s/bootstrap.yaml"
READY = "wait --for=condition=Ready node/bootstrap --timeout=300s"


def main() -> int:
    """Measure and tell; 1 when ours takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--machine", choices=MACHINES, default=MACHINES[0])
    arguments = parser.parse_args()
    build = pathlib.Path(os.environ.get("METALK8S_BUILD_ROOT", ROOT / "_build"))
    iso = pathlib.Path(os.environ.get("METALK8S_ISO", build / "metalk8s.iso"))
    bed = (Container if arguments.machine == "container" else Virtual)(build, iso)
    ratios, repeated = [], []
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        images, versions = image_archive(build / "root", pathlib.Path(scratch))
        for number in range(1, arguments.rounds + 1):
            theirs = kubeadm(bed, images, versions)
            ours, again = bootstrap(bed)
            ratios.append(ours / theirs)
            repeated.append(again / ours)
            print(
                f"round {number}: kubeadm init {theirs:6.1f} s   bootstrap.sh {ours:6.1f} s, "
                f"again {again:6.1f} s   {ratios[-1]:.2f} times, again {repeated[-1]:.2f}"
            )
    met = [
        at_most("bootstrap.sh / kubeadm init", statistics.median(ratios), TARGET),
        at_most("second run / first run", statistics.median(repeated), SECOND),
    ]
    return 0 if all(met) else 1


@dataclasses.dataclass(frozen=True)
class Bed:
    """Where clean machines come from."""

    build: pathlib.Path
    iso: pathlib.Path

    @property
    def version(self) -> str:
        path = self.build / "root/salt/metalk8s/versions.json"
        version = json.loads(path.read_text(encoding="utf-8"))["metalk8s"]["version"]
        assert isinstance(version, str)
        return version

    @property
    def key(self) -> pathlib.Path:
        return self.build / "keys" / "metalk8s.gpg"


class Container(Bed):
    """Nodes in containers, whose cgroups and disks are not their own."""

    kubelet = (
        f"cgroupDriver: cgroupfs\nevictionHard: {json.dumps(SITE['kubelet']['eviction_hard'])}"
    )
    engine = "restrict_oom_score_adj = true"

    @contextlib.contextmanager
    def machine(self) -> Iterator[Machine]:
        """Start one, with the ISO mounted, its key and a configuration in their places."""
        with started(self.image, self.iso, self.key, self.version) as (machine, _):
            yield machine

    @property
    def image(self) -> str:
        receipts = self.build / "receipts" / "testbed_image.json"
        reference = json.loads(receipts.read_text(encoding="utf-8"))["facts"]["reference"]
        assert isinstance(reference, str)
        return reference


class Virtual(Bed):
    """Virtual machines."""

    kubelet = "cgroupDriver: systemd"
    # What a distribution's engine would be told on such a machine.
    engine = """[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = true"""

    @contextlib.contextmanager
    def machine(self) -> Iterator[Machine]:
        """Start one, with the ISO mounted, its key and a configuration in their places."""
        made = disk.ensure("minbase", self.build / "apt", disk.cache())
        with virtual.started(made, self.version, self.iso) as machine:
            machine.shell(f"cp {virtual.STICK} {IMAGE}; mount -o loop,ro {IMAGE} {MOUNT}")
            machine.shell("mkdir -p /etc/metalk8s/keys")
            machine.send(self.key, "/etc/metalk8s/keys/key.gpg")
            machine.write(CONFIGURED, json.dumps(machine.configuration()))
            machine.shell(f"chmod 0600 {CONFIGURED}")
            yield machine


def bootstrap(bed: Container | Virtual) -> tuple[float, float]:
    """Return how many seconds ours takes until the node is Ready, and when all is done already."""
    with bed.machine() as machine:
        began = time.monotonic()
        machine.bootstrap()
        machine.kubectl(READY)
        first = time.monotonic() - began
        began = time.monotonic()
        machine.bootstrap()
        return first, time.monotonic() - began


def kubeadm(bed: Container | Virtual, images: pathlib.Path, versions: dict[str, str]) -> float:
    """Return how many seconds kubeadm takes, on a machine that has what it wants."""
    with bed.machine() as machine:
        prepare(machine, bed, images, versions)
        return initialise(machine, bed, versions)


def prepare(
    machine: Machine, bed: Container | Virtual, images: pathlib.Path, versions: dict[str, str]
) -> None:
    """Put all that kubeadm wants on a machine."""
    parameters = {"repository": REPOSITORY, "pause": versions["pause"], "engine": bed.engine}
    machine.shell(INSTALL.format(mount=MOUNT, packages=PACKAGES, **parameters))
    machine.send(images, "/root/images.tar")
    machine.shell("ctr --namespace k8s.io images import /root/images.tar")


def initialise(machine: Machine, bed: Container | Virtual, versions: dict[str, str]) -> float:
    """Let kubeadm begin a cluster on a prepared machine; return how many seconds it takes."""
    text = CONFIGURATION.format(
        address=machine.address,
        version=versions["kube-apiserver"],
        repository=REPOSITORY,
        etcd=versions["etcd"],
        kubelet=bed.kubelet,
    )
    machine.write("/root/kubeadm.yaml", text)
    began = time.monotonic()
    done = machine.call("sh", "-c", INIT)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    machine.kubectl(READY)
    return time.monotonic() - began


def image_archive(tree: pathlib.Path, scratch: pathlib.Path) -> tuple[pathlib.Path, dict[str, str]]:
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
