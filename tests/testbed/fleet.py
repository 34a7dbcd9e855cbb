"""Machines that join the first one: nodes of the test bed on its network, reached by SSH.

Runs ``docker`` and ``iptables``. They have nothing of ours but the public key of who may enter, as
an operator puts it there. A second network is the workload plane of all.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import pathlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.testbed.machine import (
    NAME_SERVER,
    Machine,
    container,
    docker,
    placed,
    private_network,
)

KEY = "/etc/metalk8s/pki/salt-bootstrap"
CONFIGURATION = "/etc/metalk8s/bootstrap.yaml"
ACCOUNT = "vagrant"  # it has sudo without a password
ROLE = "node-role.kubernetes.io/"
OURS = "metalk8s.scality.com/"


@dataclass(frozen=True)
class Fleet:
    """The first machine of a cluster, and those that join or joined it.

    :param workload: the network that is their workload plane.
    """

    first: Machine
    others: dict[str, Machine]
    workload: str

    def workload_address(self, machine: Machine) -> str:
        """Return the address of a machine in the workload plane."""
        return placed(machine.name, self.workload)[0]

    @property
    def machines(self) -> list[Machine]:
        return [self.first, *self.others.values()]

    def manifest(
        self, name: str, roles: Sequence[str], of: str = "", **more: str
    ) -> dict[str, Any]:
        """Describe a machine as the documentation tells an operator.

        :param of: which machine it is, when not the one of that name.
        :param more: annotations, without our prefix.
        """
        annotations = {
            "ssh-host": self.others[of or name].address,
            "ssh-user": ACCOUNT,
            "ssh-sudo": "true",
            "ssh-key-path": KEY,
            **{key.replace("_", "-"): value for key, value in more.items()},
        }
        labels = {f"{ROLE}{role}": "" for role in roles}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {f"{OURS}version": self.first.version, **labels},
                "annotations": {f"{OURS}{key}": value for key, value in annotations.items()},
            },
        }

    def declare(self, name: str, *roles: str, of: str = "", **more: str) -> None:
        """Apply the manifest of a machine."""
        self.first.kubectl("apply -f -", json.dumps(self.manifest(name, roles, of, **more)))


@contextlib.contextmanager
def gathered(first: Machine, image: str, names: Sequence[str]) -> Iterator[Fleet]:
    """Start machines beside the first one; they are gone afterwards."""
    first.shell(f"mkdir -p $(dirname {KEY})")
    first.shell(f"test -f {KEY} || ssh-keygen -q -t ed25519 -N '' -f {KEY}")
    public = first.shell(f"cat {KEY}.pub")
    with contextlib.ExitStack() as stack:
        workload, _ = stack.enter_context(private_network("workload-"))
        for network in (first.network, workload):
            stack.enter_context(_pods_let_through(network))
        _connect(stack, first, workload)
        _, plane = placed(first.name, workload)
        configuration = json.loads(first.shell(f"cat {CONFIGURATION}"))
        configuration["networks"]["workloadPlane"] = str(plane)
        first.write(CONFIGURATION, json.dumps(configuration, indent=1))
        started = {
            name: stack.enter_context(container(image, first.network, hostname=name))
            for name in names
        }
        others = {}
        for name, identity in started.items():
            address, subnet = placed(identity, first.network)
            others[name] = Machine(identity, first.version, address, first.network)
            _connect(stack, others[name], workload)
            _settle(others[name], subnet, public)
        yield Fleet(first, others, workload)


def _connect(stack: contextlib.ExitStack, machine: Machine, network: str) -> None:
    docker("network", "connect", network, machine.name)
    stack.callback(docker, "network", "disconnect", "--force", network, machine.name)


@contextlib.contextmanager
def _pods_let_through(network: str) -> Iterator[None]:
    """Let the host pass on what pods of one machine send to those of another.

    Where the kernel shows bridged packets to iptables (br_netfilter), the engine's rules for a
    network without a way out drop those that have no address of that network, and pods have none.
    The rule is for what stays on the bridge: it opens no way out, and none to other networks.
    """
    bridge = f"br-{docker('network', 'inspect', '--format={{.Id}}', network)[:12]}"
    rule = ["DOCKER-USER", "--in-interface", bridge, "--out-interface", bridge, "--jump", "ACCEPT"]
    _iptables("--insert", *rule)
    try:
        yield
    finally:
        _iptables("--delete", *rule)


def _iptables(*words: str) -> None:
    argv = ["iptables", "--wait", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"


def _settle(
    machine: Machine, subnet: ipaddress.IPv4Network | ipaddress.IPv6Network, public: str
) -> None:
    machine.wait_for_systemd()
    machine.shell(f"ip route replace default via {next(subnet.hosts())}")
    machine.shell(f"echo nameserver {NAME_SERVER} >/etc/resolv.conf")
    home = pathlib.PurePosixPath("/home") / ACCOUNT / ".ssh/authorized_keys"
    machine.write(str(home), public)
    machine.shell(f"chown {ACCOUNT}: {home}; chmod 600 {home}")
