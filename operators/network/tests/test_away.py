"""The API server is away: packets and policies go on, and agents come back by themselves."""

from __future__ import annotations

import contextlib
import itertools
import signal
import time

import pytest
from cluster_api import NAMESPACES, PODS, POLICIES
from nodes import node
from site_ import MACHINE, MTU, Site
from waiting import until

pytestmark = pytest.mark.integration
PAIRS = list(itertools.permutations(MACHINE, 2))
# Seconds: an agent asks again after half a minute at most, and notices a silence after as many.
BACK = 120
SHOP = {"metadata": {"name": "shop", "labels": {}}}
DENY = {
    "metadata": {"name": "deny", "namespace": "shop"},
    "spec": {"podSelector": {"matchLabels": {"app": "two"}}},
}
AWAY = """
table ip away {{
    chain input {{
        type filter hook input priority 0;
        tcp dport {port} counter {asked}
    }}
    chain output {{
        type filter hook output priority 0;
        tcp sport {port} {said}
    }}
}}
"""
# What becomes of the packets for the API server, and of its own.
WAYS = {"refuses": ("reject with tcp reset", "accept"), "is silent": ("drop", "drop")}
TIMES = [pytest.param(5, id="seconds"), pytest.param(600, id="minutes", marks=pytest.mark.soak)]


@pytest.fixture(scope="module")
def site(namespaces, tmp_path_factory):
    found = Site(tmp_path_factory.mktemp("away"))
    found.api.others[NAMESPACES].put(SHOP)
    for machine in MACHINE:
        found.api.others[PODS].put({
            "metadata": {"name": machine, "namespace": "shop", "labels": {"app": machine}},
            "spec": {"nodeName": machine, "containers": [{}]},
            "status": {"phase": "Running", "podIP": found.pod(machine)},
        })  # fmt: skip
        found.join(machine)
    for machine in MACHINE:
        until(lambda machine=machine: found.health(machine), f"{machine} is ready")
    yield found
    found.close()


@contextlib.contextmanager
def away(site, how):
    """Let nobody reach the API server, and end what its connections say."""
    asked, said = WAYS[how]
    table = AWAY.format(port=site.api.port, asked=asked, said=said)
    site.inside("router", "nft", "-f", "-", text=table)
    # Afterwards: who came back in between would be told of all that happens.
    if how == "refuses":
        for one in (site.api, *site.api.others.values()):
            one.cut()
    try:
        yield
        listed = site.inside("router", "nft", "list", "table", "ip", "away")
        assert "counter packets 0 " not in listed, "nobody asked it"
    finally:
        site.inside("router", "nft", "delete", "table", "ip", "away")


def passes(site):
    """Return whose packets arrive, of the largest that may."""
    return {
        (here, there)
        for here, there in PAIRS
        if site.probe(f"pod-{here}", site.pod(there), MTU) == "answer"
    }


@pytest.mark.parametrize("seconds", TIMES)
@pytest.mark.parametrize("how", WAYS)
def test_everything_goes_on(site, how, seconds):
    """Also where an agent starts meanwhile, and where somebody empties the packet filter."""
    site.api.others[POLICIES].put(DENY)
    allowed = {pair for pair in PAIRS if pair[1] != "two"}
    until(lambda: passes(site) == allowed, "the policy holds")
    with away(site, how):
        end = time.monotonic() + seconds
        site.kill("one", signal.SIGKILL)
        site.start("one")
        site.inside("two", "nft", "delete", "table", "ip", "metalk8s_policies")
        until(lambda: passes(site) == allowed, "the agent remembers its policies")
        site.api.put(node("four", "10.1.0.4", "10.233.4.0/24"))
        site.api.others[POLICIES].remove("deny")
        rounds = 0
        while time.monotonic() < end or not rounds:
            assert passes(site) == allowed
            assert not site.health("one"), "it has heard of nothing"
            rounds += 1
            time.sleep(0.5)  # the machine has other work, too
    until(lambda: passes(site) == set(PAIRS), "the policy is gone", BACK)
    for machine in MACHINE:
        until(lambda machine=machine: site.health(machine), f"{machine} is ready", BACK)
        route = ("ip", "route", "show", "10.233.4.0/24")
        until(lambda route=route, on=machine: site.inside(on, *route), "the new machine", BACK)
    site.api.remove("four")
