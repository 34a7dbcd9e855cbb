"""From the ISO to a cluster on a machine with a kernel of its own, and back to what it was.

The machine is virtual, Debian as it is installed today, and nothing on it is made ready. While
``bootstrap.sh`` runs its power is cut ``METALK8S_POWER_CUTS`` times (default: 2) at moments that
``METALK8S_SEED`` decides, within the first ``METALK8S_LATEST_CUT`` seconds (default: 150).

The tests are stations of one journey, in their order. Emulation makes it long: CI goes as far as
``--check``, ``./doit.sh test:soak`` all the way.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import ipaddress
import json
import os
import pathlib
import random
import re
import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from tests.e2e.conftest import VARIANT
from tests.integration.conftest import ROOT
from tests.integration.test_cluster import WEB
from tests.testbed import virtual
from tests.testbed.disk import Disk
from tests.testbed.machine import IMAGE, KUBECTL, changes
from tests.testbed.virtual import STICK, SUBNET, VirtualMachine

pytestmark = pytest.mark.e2e

CUTS = int(os.environ.get("METALK8S_POWER_CUTS", "2"))
LATEST = float(os.environ.get("METALK8S_LATEST_CUT", "150"))
SEED = int(os.environ.get("METALK8S_SEED", time.time_ns() % 10**6))
KEY = "/root/metalk8s.gpg"
# Seconds until something runs: emulated, beside other work, a whole cluster takes ten minutes.
PATIENCE = 900
# What every program may leave: what it has logged, and what it can make again.
KEPT = ("/var/log/*", "/var/cache/*", "/tmp/*", "/root/*", "/var/tmp/*", "/var/lib/systemd/*")
RECORDS = ("/var/lib/dpkg/*", "/var/lib/apt/*", "/etc/ld.so.cache", "/etc/alternatives/*")
# Where a cluster puts what is its own; Debian's packages that it needed stay installed.
PLACES = ("/etc/cni", "/etc/containerd", "/etc/kubernetes", "/etc/metalk8s", "/etc/salt",
    "/etc/sysctl.d", "/etc/modules-load.d", "/etc/systemd/system", "/opt", "/srv", "/var/lib/cni",
    "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet", "/var/lib/metalk8s")  # fmt: skip
# What the operator brought, and the oldest version that may come after it.
OPERATOR = ("/etc/metalk8s/bootstrap.yaml", "/etc/metalk8s/keys", "/srv/scality")
RULES = "/etc/nftables.conf"  # of a packet filter, where there is one
EXAMPLE = re.compile(r"^```nft\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclasses.dataclass
class Journey:
    """A machine on its way.

    :ivar fresh: everything on its disk before anything of ours was.
    :ivar seconds: how long the last run of ``bootstrap.sh`` took.
    """

    machine: VirtualMachine
    fresh: Mapping[str, str]
    nginx: str
    seconds: float = 0

    @property
    def place(self) -> str:
        return f"/srv/scality/metalk8s-{self.machine.version}"

    def bootstrap(self, *arguments: str) -> str:
        """Run ``bootstrap.sh`` as an operator does; return what they see."""
        began = time.monotonic()
        output = self.machine.bootstrap(
            "--key", KEY, *arguments, script=f"{self.place}/bootstrap.sh"
        )
        self.seconds = time.monotonic() - began
        return output

    def mount(self) -> None:
        """Mount the ISO where it belongs, as the how-to says; a machine that booted may have."""
        mount = f"mount -o loop,ro {IMAGE} {self.place}"
        self.machine.shell(f"mkdir -p {self.place}; mountpoint -q {self.place} || {mount}")


@pytest.fixture(scope="module")
def journey(
    machine_disk: Disk, iso: pathlib.Path, build_root: pathlib.Path, version: str
) -> Iterator[Journey]:
    """Switch on a machine; bring the ISO on a stick, and the key another way."""
    [nginx] = (path.name for path in (build_root / "root/images/nginx").iterdir())
    with virtual.started(machine_disk, version, iso) as machine:
        fresh = machine.tree(*KEPT)
        machine.shell(f"cp {STICK} {IMAGE}")
        machine.send(build_root / "keys/metalk8s.gpg", KEY)
        for name in ("SHA256SUM", "SHA256SUM.sig"):
            machine.send(build_root / name, f"/root/{name}")
        found = Journey(machine, fresh, nginx)
        try:
            yield found
        finally:
            artefacts(machine, build_root / "reports", "machine")


def artefacts(machine: VirtualMachine, folder: pathlib.Path, name: str) -> None:
    """Keep what the machine printed and logged, for whoever has to find out."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-console.log").write_bytes(machine.hardware.console.read_bytes())
    log = machine.call("sh", "-c", "cat /var/log/metalk8s/*.log").stdout
    (folder / f"{name}-metalk8s.log").write_text(log, encoding="utf-8")
    journal = machine.call("journalctl", "--no-pager", "--lines=20000").stdout
    (folder / f"{name}-journal.log").write_text(journal, encoding="utf-8")


def test_the_iso_is_verified_before_anything_on_it_runs(journey: Journey) -> None:
    """With what Debian has, and nothing else."""
    journey.machine.shell(
        f"cd /root && gpgv --keyring {KEY} SHA256SUM.sig SHA256SUM && sha256sum -c SHA256SUM"
    )
    journey.mount()


def test_check_is_content_and_changes_nothing(journey: Journey) -> None:
    """On a machine that has what Debian calls required, and an address."""
    machine = journey.machine
    example = machine.shell(f"cat {journey.place}/bootstrap.example.yaml")
    assert "10.0.2.0/24" not in example
    machine.write("/etc/metalk8s/bootstrap.yaml", json.dumps(machine.configuration()))
    machine.shell("chmod 0600 /etc/metalk8s/bootstrap.yaml")
    if VARIANT == "hardened":
        let_through(journey)
    before = machine.tree(*KEPT)
    journey.bootstrap("--check")
    assert machine.tree(*KEPT) == before


def let_through(journey: Journey) -> None:
    """Do what `--check` says about a filter that drops: the site's rules are the operator's."""
    machine = journey.machine
    refused = machine.call(f"{journey.place}/bootstrap.sh", "--check", "--key", KEY)
    assert refused.returncode == 22, refused.stdout + refused.stderr
    assert "chain input of table inet filter drops what no rule lets through" in refused.stderr
    [rules] = EXAMPLE.findall((ROOT / "docs/reference/ports.md").read_text(encoding="utf-8"))
    own = rules.replace("10.50.0.0/24", SUBNET).replace("10.50.0.2", machine.address)
    machine.shell(f"cat >>{RULES}", own)
    machine.shell("systemctl reload nftables")
    settings = {**machine.configuration(), "site": {"firewall": {"own_rules": True}}}
    machine.write("/etc/metalk8s/bootstrap.yaml", json.dumps(settings))


@pytest.mark.soak
def test_node_is_ready_although_the_power_was_cut(journey: Journey) -> None:
    """At random moments; the file system is whole each time, and the next run goes on."""
    machine, chance = journey.machine, random.Random(SEED)
    for _ in range(CUTS):
        cut_power_during_bootstrap(journey, chance.uniform(0, LATEST))
    output = journey.bootstrap()
    lines = output.splitlines()
    assert all(re.match(r"\[\d/\d\] .*\d\.\d s( |$)", line) for line in lines[:-2]), output
    nodes = machine.kubectl("get nodes --no-headers")
    assert re.fullmatch(r"bootstrap +Ready +\S+ +\S+ +v1\.20\.\S+\n", nodes), f"seed {SEED}"
    print(f"seed {SEED}: Ready after {journey.seconds:.0f} s\n{output}")


def cut_power_during_bootstrap(journey: Journey, seconds: float) -> None:
    """Cut the power some seconds after the start, check the disk, and boot."""
    machine = journey.machine
    running = threading.Thread(
        target=machine.call, args=(f"{journey.place}/bootstrap.sh", "--key", KEY)
    )
    running.start()
    running.join(seconds)
    machine.cut_power()
    running.join()
    print(f"power cut after {seconds:.0f} s: {machine.check_disk().strip()}")
    machine.switch_on()
    journey.mount()


@pytest.mark.soak
def test_nothing_tried_to_leave(journey: Journey) -> None:
    """Neither to an address nor for a name of the world."""
    inside = ipaddress.ip_network(SUBNET)
    outside = {
        packet
        for packet in journey.machine.packets()
        if ipaddress.ip_address(packet.destination) not in inside
        and not packet.is_multicast
        and packet.destination != "255.255.255.255"  # DHCP
    }
    assert not outside, outside


@pytest.mark.soak
def test_control_plane_runs(journey: Journey) -> None:
    """Every pod, each container of it."""
    names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    for name in (*names, "balancer", "repositories", "salt-master"):
        pod = f"{KUBECTL} -n kube-system get pod {name}-bootstrap --no-headers"
        journey.machine.wait(f"{pod} | grep -E '(1/1|2/2) +Running'", PATIENCE)
    journey.machine.kubectl(
        f"-n kube-system rollout status daemonset/kube-proxy --timeout={PATIENCE}s"
    )


@pytest.mark.soak
def test_pod_serves(journey: Journey) -> None:
    """It runs, has logs, takes commands, and its Service is reached by address and by node port."""
    machine = journey.machine
    machine.kubectl("apply -f -", WEB.format(version=machine.version, nginx=journey.nginx))
    machine.kubectl(f"wait --for=condition=Ready pod/web --timeout={PATIENCE}s")
    assert machine.kubectl("logs web").strip() == "started"
    assert machine.kubectl("exec web -- id -u").strip() == "0"
    is_served(machine)


def is_served(machine: VirtualMachine) -> None:
    """Ask the pod by the ways there are."""
    address = machine.kubectl("get service web -o jsonpath='{.spec.clusterIP}'")
    for place in (address, f"{machine.address}:30080"):
        read = f"import urllib.request as u; print(u.urlopen('http://{place}/').read().decode())"
        assert "it works" in machine.wait(f'python3.11 -c "{read}"', PATIENCE)


@pytest.mark.soak
def test_secret_is_ciphertext_on_the_disk(journey: Journey) -> None:
    """Nobody who takes the disk reads it, and it is read by who may."""
    machine = journey.machine
    machine.kubectl("create secret generic hidden --from-literal=word=xyzzy-plugh")
    read = machine.kubectl("get secret hidden -o jsonpath='{.data.word}' | base64 -d")
    assert read == "xyzzy-plugh"
    found = machine.shell("sync; grep -rlaF -e xyzzy-plugh -e eHl6enktcGx1Z2 /var/lib/etcd || true")
    assert found == ""


@pytest.mark.soak
def test_everything_is_back_after_a_reboot(journey: Journey) -> None:
    """By itself: ISO, node, API, and what ran."""
    machine = journey.machine
    machine.restart()
    machine.wait(f"{KUBECTL} get --raw /readyz", PATIENCE)
    machine.kubectl(f"wait --for=condition=Ready node/bootstrap --timeout={PATIENCE}s")
    assert "MANIFEST" in machine.shell(f"ls {journey.place}")
    machine.kubectl(f"wait --for=condition=Ready pod/web --timeout={PATIENCE}s")
    is_served(machine)


@pytest.mark.soak
def test_second_run_changes_nothing(journey: Journey) -> None:
    """After the reboot, too."""
    first = journey.seconds
    output = journey.bootstrap()
    assert changes(output), output
    assert not any(changes(output)), output
    print(
        f"second run {journey.seconds:.0f} s, {journey.seconds / first:.2f} of the last\n{output}"
    )


@pytest.mark.soak
def test_absent_leaves_the_machine_as_it_was(journey: Journey) -> None:
    """By the commands of docs/how-to/reset-a-node.md; what was there is there, and nothing runs."""
    machine = journey.machine
    version = machine.version
    machine.shell(
        "salt-call --local --config-dir=/etc/metalk8s/renewal --retcode-passthrough "
        f"state.apply metalk8s.roles.bootstrap.absent saltenv=metalk8s-{version}"
    )
    assert machine.shell("grep -lE '^(kube|etcd|nginx|salt)' /proc/[0-9]*/comm || true") == ""
    machine.shell(
        f"unit=$(systemd-escape --path --suffix=mount {journey.place}); "
        'systemctl disable --now "$unit"; rm "/etc/systemd/system/$unit"; '
        "systemctl daemon-reload; apt-get purge --yes metalk8s-salt-minion metalk8s-salt; "
        "rm -r /var/lib/metalk8s /var/log/metalk8s"
    )
    left = machine.tree(*KEPT, *RECORDS)
    lost = {
        path: (kind, left.get(path))
        for path, kind in journey.fresh.items()
        if left.get(path) != kind and not is_record(path)
    }
    assert not lost
    new = {path for path in left if path not in journey.fresh and path.startswith(PLACES)}
    assert not {
        path
        for path in new
        if not any(path.startswith(theirs) or theirs.startswith(path) for theirs in OPERATOR)
    }


def is_record(path: str) -> bool:
    """Tell whether something is a package manager's record, which changes with every package."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in RECORDS)
