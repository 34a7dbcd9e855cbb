"""How much longer machines take to join than with ``kubeadm join``, on equal machines in one run.

Usage: ``python -m tests.bench.cluster [--rounds 1]``. Needs root, Docker, ``iptables``, ``skopeo``
and an ISO. A worker and two masters, which have nothing, join a first machine, one after the other,
and each counts until its Node is Ready. Ours begins with the manifest of a Node, and goes on after
Ready: replicas of what is there already move to the new machine. The whole command is told beside
it. With kubeadm, packages are installed from the medium and images are loaded, then the command is
run: both together count, and the command alone is told beside it. The median of the rounds' ratios
counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator

from tests.bench import bootstrap
from tests.bench.verdict import at_most
from tests.testbed import fleet
from tests.testbed.machine import IMAGE, MOUNT, Machine, container, placed, started

TARGET = 3.0  # times the way with kubeadm
JOINING = {"worker": ("node",), "second": ("master", "etcd"), "third": ("master", "etcd")}
JOURNAL = "metalk8s-journal"  # of runs, whose steps say how long they took
TOKEN = "kubeadm token create --print-join-command"
UPLOAD = "kubeadm init phase upload-certs --upload-certs --config /root/kubeadm.yaml"
# Its checks ask for crictl, which is not to be had.
SOCKET = "--skip-phases=preflight --cri-socket=/run/containerd/containerd.sock"


def main() -> int:
    """Measure and tell; 1 when ours takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    build = pathlib.Path(os.environ.get("METALK8S_BUILD_ROOT", bootstrap.ROOT / "_build"))
    iso = pathlib.Path(os.environ.get("METALK8S_ISO", build / "metalk8s.iso"))
    bed = bootstrap.Container(build, iso)
    ratios: dict[str, list[float]] = {name: [] for name in JOINING}
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        images, versions = bootstrap.image_archive(build / "root", pathlib.Path(scratch))
        for number in range(1, rounds + 1):
            theirs, ours = kubeadm(bed, images, versions), deploy(bed)
            for name, (before, command) in theirs.items():
                ready, whole = ours[name]
                ratios[name].append(ready / (before + command))
                print(
                    f"round {number}: {name:6}  deploy-node.sh {ready:6.1f} s until Ready, "
                    f"{whole:6.1f} s whole   "
                    f"packages and images {before:6.1f} s, kubeadm join {command:6.1f} s   "
                    f"{ratios[name][-1]:.2f} times, whole "
                    f"{whole / (before + command):.2f}; the command {ready / command:.2f}",
                    flush=True,
                )
    met = [
        at_most(f"deploy-node.sh / the way with kubeadm, {name}", statistics.median(found), TARGET)
        for name, found in ratios.items()
    ]
    return 0 if all(met) else 1


def deploy(bed: bootstrap.Container) -> dict[str, tuple[float, float]]:
    """Return the seconds of each machine by ours: until it is Ready, and of the whole command."""
    found = {}
    with (
        started(bed.image, bed.iso, bed.key, bed.version, keepalived=True) as (first, _),
        fleet.gathered(first, bed.image, list(JOINING)) as gathered,
    ):
        first.bootstrap()
        for name, roles in JOINING.items():
            began = time.monotonic()
            gathered.declare(name, *roles)
            _run(first, f"/srv/scality/metalk8s-{bed.version}/deploy-node.sh {name}")
            whole = _ready(first, name, began)
            found[name] = (whole - _after_ready(first, name), whole)
    return found


def _after_ready(first: Machine, name: str) -> float:
    """Return the seconds of the steps that came after the one that waits for the Node."""
    journal = first.kubectl(f"get configmap {JOURNAL} --namespace kube-system --output json")
    runs = map(json.loads, json.loads(journal)["data"].values())
    steps = next(run["steps"] for run in runs if run["node"] == name)
    ready = [step["id"] for step in steps].index("ready")
    return float(sum(step["result"]["seconds"] for step in steps[ready + 1 :]))


def kubeadm(
    bed: bootstrap.Container, images: pathlib.Path, versions: dict[str, str]
) -> dict[str, tuple[float, float]]:
    """Return the seconds of each machine for packages and images, and for the command."""
    found = {}
    with bed.machine() as first, _beside(first, bed) as others:
        bootstrap.prepare(first, bed, images, versions)
        bootstrap.initialise(first, bed, versions)
        for name, roles in JOINING.items():
            began = time.monotonic()
            bootstrap.prepare(others[name], bed, images, versions)
            before = time.monotonic() - began
            words = [first.shell(TOKEN).strip(), SOCKET]
            if "master" in roles:
                key = first.shell(UPLOAD).split()[-1]
                words.append(f"--control-plane --certificate-key={key}")
            began = time.monotonic()
            _run(others[name], " ".join(words))
            found[name] = (before, _ready(first, name, began))
    return found


@contextlib.contextmanager
def _beside(first: Machine, bed: bootstrap.Container) -> Iterator[dict[str, Machine]]:
    """Start the machines that join, with the medium mounted."""
    others = {}
    with contextlib.ExitStack() as stack:
        for name in JOINING:
            volume = f"{bed.iso}:{IMAGE}:ro"
            identity = stack.enter_context(
                container(bed.image, first.network, volume, hostname=name)
            )
            address, _ = placed(identity, first.network)
            others[name] = Machine(identity, bed.version, address, first.network)
            others[name].wait_for_systemd()
            others[name].shell(f"mount -o loop,ro {IMAGE} {MOUNT}")
        yield others


def _run(machine: Machine, command: str) -> None:
    done = machine.call("sh", "-c", command)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")


def _ready(first: Machine, name: str, began: float) -> float:
    first.kubectl(f"wait --for=condition=Ready node/{name} --timeout=300s")
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
