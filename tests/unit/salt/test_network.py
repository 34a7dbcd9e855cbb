"""Which address of a machine is on which network."""

from __future__ import annotations

import pathlib

import pytest

from .loader import load

STUB = "# by systemd-resolved\nnameserver 127.0.0.53\noptions edns0\n"

GRAINS = {
    "ip4_interfaces": {
        "lo": ["127.0.0.1"],
        "eth1": ["10.1.0.7", "192.0.2.7"],
        "eth0": ["10.0.0.7"],
        "eth2": [],
    }
}


@pytest.mark.parametrize(
    ("cidrs", "found"),
    [
        (["10.0.0.0/24"], {"address": "10.0.0.7", "interface": "eth0"}),
        (["10.9.0.0/24", "192.0.2.0/24"], {"address": "192.0.2.7", "interface": "eth1"}),
        (["10.1.0.0/24", "10.0.0.0/24"], {"address": "10.1.0.7", "interface": "eth1"}),
        (["10.0.0.0/8"], {"address": "10.0.0.7", "interface": "eth0"}),
        (["10.9.0.0/24"], {}),
        ([], {}),
    ],
)
def test_address_in(cidrs: list[str], found: dict[str, str]) -> None:
    """The networks decide the order, then the interfaces' names."""
    assert load("_modules/metalk8s_network", grains=GRAINS).address_in(cidrs) == found


def test_a_shared_address_is_the_last_choice() -> None:
    """A virtual one is beside the machine's own; without another, it is the machine's own."""
    network = load("_modules/metalk8s_network", grains=GRAINS)
    other = {"address": "192.0.2.7", "interface": "eth1"}
    assert network.address_in(["0.0.0.0/0"], "10.0.0.7")["address"] == "10.1.0.7"
    assert network.address_in(["192.0.2.0/24"], "10.1.0.7") == other
    assert network.address_in(["192.0.2.0/24"], "192.0.2.7") == other


def test_a_network_with_host_bits_is_an_error() -> None:
    """It is a mistake somewhere: no guess what was meant."""
    with pytest.raises(ValueError, match="host bits"):
        load("_modules/metalk8s_network", grains=GRAINS).address_in(["10.0.0.7/24"])


def test_nth_address() -> None:
    """The API's Service has the first address of its network, the name server the tenth."""
    network = load("_modules/metalk8s_network")
    assert network.nth_address("10.96.0.0/12", 1) == "10.96.0.1"
    assert network.nth_address("10.96.0.0/12", 10) == "10.96.0.10"


@pytest.mark.parametrize(
    ("text", "resolved", "chosen"),
    [
        (STUB, True, "resolved"),
        (STUB, False, "resolv.conf"),
        ("nameserver 10.0.0.1\n", True, "resolv.conf"),
        (f"{STUB}nameserver 10.0.0.1\n", True, "resolv.conf"),
        ("", True, "resolv.conf"),
        (None, True, "resolv.conf"),
        ("nameserver\n\n", True, "resolv.conf"),
    ],
)
def test_resolver(tmp_path: pathlib.Path, text: str | None, resolved: bool, chosen: str) -> None:
    """A pod that asked the stub on its own loopback interface would ask nobody."""
    network = load("_modules/metalk8s_network")
    network.RESOLVER, network.RESOLVED = tmp_path / "resolv.conf", tmp_path / "resolved"
    if text is not None:
        network.RESOLVER.write_text(text)
    if resolved:
        network.RESOLVED.write_text("nameserver 10.0.0.1\n")
    assert network.resolver() == str(tmp_path / chosen)


def test_names_that_servers_of_the_site_know() -> None:
    """In an order that does not change, so that pods do not restart."""
    network = load("_modules/metalk8s_network")
    assert network.site_zones({}) == []
    zones = {"corp.example": ["10.0.0.2", "fd00::1"], "168.192.in-addr.arpa.": ["10.0.0.1"]}
    assert network.site_zones(zones) == [
        "168.192.in-addr.arpa.=10.0.0.1",
        "corp.example=10.0.0.2,fd00::1",
    ]


def test_all_mistakes_of_a_site_are_told() -> None:
    network = load("_modules/metalk8s_network")
    zones = {
        "Corp Example": ["10.0.0.1"],
        "a" * 64: ["10.0.0.1"],
        "b.example": [],
        "c.example": "10.0.0.1",
        "d.example": ["10.0.0.1", "dns.example", 7],
    }
    with pytest.raises(ValueError, match=r"^dns\.zones: ") as caught:
        network.site_zones(zones)
    assert str(caught.value).removeprefix("dns.zones: ").split("; ") == [
        "Corp Example is no domain",
        f"{'a' * 64} is no domain",
        "b.example has no list of addresses",
        "c.example has no list of addresses",
        "dns.example of d.example is no address",
        "7 of d.example is no address",
    ]
