"""What is read off a machine."""

import ipaddress
import os

from tests.unit import bootstrap


def test_machine(fake):
    machine = fake.machine
    assert {str(a): i for a, i in machine.addresses.items()} == {
        "10.50.0.2": "eth0",
        "10.9.9.9": "",
    }
    assert machine.listeners == {22: {"sshd"}}
    assert machine.packages() == {"bash": "5.2"}
    assert [m.point for m in machine.mounts] == ["/", "/mnt/a b"]
    (fake.root / "var/lib/dpkg/status").unlink()
    rpm = fake.be(run=lambda _: "bash 5.1-1\ngpg-pubkey\n").machine
    assert rpm.packages() == {"bash": "5.1-1"}


def test_this_machine():
    """The real one answers everything, whatever it is."""
    machine = bootstrap.Machine.here()
    assert machine.user == os.geteuid()
    assert machine.name
    assert machine.memory > 0
    assert machine.disk("/no/such/folder")[0] > 0
    assert isinstance(machine.listeners, dict)
    assert machine.run(["true"]) == machine.run(["/no/such/program"]) == ""
    assert machine.resolves("localhost")
    # One's own address has no hardware behind it.
    assert machine.neighbour(ipaddress.IPv4Address("127.0.0.1")) == ""
    assert not machine.resolves("name.invalid")
    assert machine.routes_to
