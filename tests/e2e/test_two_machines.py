"""Two machines with kernels of their own make a cluster, and both lose their power.

Joined by a cable, which is their control plane and workload plane; there is no way out. The tests
are stations of one journey, in their order. Emulation makes it long: all of it is in the soak ring.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import socket
from collections.abc import Iterator

import pytest

from tests.e2e.test_first_machine import KEY, PATIENCE, Journey, artefacts
from tests.testbed import virtual
from tests.testbed.disk import Disk
from tests.testbed.fleet import KEY as BOOTSTRAP_KEY
from tests.testbed.fleet import Fleet
from tests.testbed.machine import IMAGE, KUBECTL, Machine
from tests.testbed.pods import ASK, run_pod
from tests.testbed.qemu import Cable
from tests.testbed.virtual import STICK, VirtualMachine

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

WORKER = "worker"
PLANE = "10.77.0.0/24"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
MACS = ("52:54:00:77:00:01", "52:54:00:77:00:02")
NETWORK = "[Match]\nMACAddress={mac}\n\n[Network]\nAddress={address}/24\n"


@pytest.fixture(scope="module")
def pair(
    machine_disk: Disk, iso: pathlib.Path, build_root: pathlib.Path, version: str
) -> Iterator[Fleet]:
    """Switch on two machines with a cable between them; bring the ISO to the first one."""
    one, other = _free_ports()
    cables = (Cable(MACS[0], one, other), Cable(MACS[1], other, one))
    first_, second_ = (
        virtual.started(machine_disk, version, stick, cable=cable, address=address)
        for stick, cable, address in zip((iso, None), cables, ADDRESSES, strict=True)
    )
    with first_ as first, second_ as second:
        for machine, mac in zip((first, second), MACS, strict=True):
            text = NETWORK.format(mac=mac, address=machine.address)
            machine.write("/etc/systemd/network/cable.network", text)
            machine.shell("systemctl restart systemd-networkd")
        second.shell(
            f"sed -i s/bootstrap/{WORKER}/ /etc/hostname /etc/hosts; hostname -F /etc/hostname"
        )
        first.shell(f"cp {STICK} {IMAGE}")
        first.send(build_root / "keys/metalk8s.gpg", KEY)
        try:
            yield Fleet(first, {WORKER: second}, workload=PLANE)
        finally:
            for machine in (first, second):
                artefacts(machine, build_root / "reports", f"pair-{machine.address}")


def _free_ports() -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(type=socket.SOCK_DGRAM)) for _ in MACS]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def test_a_worker_joins_the_first_machine(pair: Fleet) -> None:
    """By its Node and one command, as the how-to says."""
    first = pair.first
    journey = Journey(_virtual(first), {}, "")
    journey.mount()
    planes = {"controlPlane": PLANE, "workloadPlane": PLANE}
    configuration = {**journey.machine.configuration(), "networks": planes}
    first.write("/etc/metalk8s/bootstrap.yaml", json.dumps(configuration))
    first.shell("chmod 0600 /etc/metalk8s/bootstrap.yaml")
    journey.bootstrap()
    first.shell(f"ssh-keygen -q -t ed25519 -N '' -f {BOOTSTRAP_KEY}")
    public = first.shell(f"cat {BOOTSTRAP_KEY}.pub")
    pair.others[WORKER].shell("cat >>/root/.ssh/authorized_keys", public)
    pair.declare(WORKER, ssh_user="root", ssh_sudo="false")
    print(first.shell(f"{journey.place}/deploy-node.sh {WORKER}"))
    nodes = first.kubectl("get nodes --no-headers")
    assert len(re.findall(r"^\S+ +Ready ", nodes, re.MULTILINE)) == len(pair.machines), nodes


def test_a_second_deployment_changes_nothing(pair: Fleet) -> None:
    """On a machine with its own kernel, as on those of the fleet."""
    place = f"/srv/scality/metalk8s-{pair.first.version}"
    output = pair.first.shell(f"{place}/deploy-node.sh {WORKER}")
    assert re.search(r" 0 changed\. Log", output), output


def test_pods_of_both_machines_talk(pair: Fleet) -> None:
    """Each to the other, over the cable."""
    for name, machine in (("here", "bootstrap"), ("there", WORKER)):
        run_pod(pair, name, machine, PATIENCE)
    talk(pair)


def test_both_lose_their_power(pair: Fleet) -> None:
    """At once; switched on again, they are what they were by themselves."""
    machines = [_virtual(machine) for machine in pair.machines]
    for machine in machines:
        machine.cut_power()
    for machine in machines:
        print(machine.check_disk().strip())
        machine.switch_on()
    first = pair.first
    first.wait(f"{KUBECTL} get --raw /readyz", PATIENCE)
    # What the API says of before the power cut is no news.
    for machine in machines:
        machine.wait("pidof kubelet", PATIENCE)
    boots = [machine.boot() for machine in machines]
    paths = "-o 'jsonpath={.items[*].status.nodeInfo.bootID}'"
    everywhere = " && ".join(f"echo $ids | grep -q {boot}" for boot in boots)
    first.wait(f"ids=$({KUBECTL} get nodes {paths}); {everywhere} && echo seen", PATIENCE)
    first.kubectl(f"wait --for=condition=Ready nodes --all --timeout={PATIENCE}s")
    talk(pair)


def talk(pair: Fleet) -> None:
    """Let each pod ask the other one, which sees who asks."""
    for asking, asked in (("here", "there"), ("there", "here")):
        words = "-o 'jsonpath={.status.podIP}'"
        ask = (
            f"url=http://$({KUBECTL} get pod {asked} {words}):8080/; "
            f"seen=$({KUBECTL} exec {asking} -- python3 -c '{ASK}' $url); "
            f'test "$seen" = $({KUBECTL} get pod {asking} {words}) && echo $seen'
        )
        pair.first.wait(ask, PATIENCE)


def _virtual(machine: Machine) -> VirtualMachine:
    assert isinstance(machine, VirtualMachine)
    return machine
