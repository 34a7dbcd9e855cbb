"""Policies on machines with their agents: new pods, dead agents, an API server that is away."""

from __future__ import annotations

import json
import select
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from api_server import Fault
from cluster_api import NAMESPACES, PODS, POLICIES
from nodes import node
from site_ import MTU, Site, run
from waiting import until
from yard import within

pytestmark = pytest.mark.integration
NEW, PORT = "10.233.1.9", 7777
TABLE = ("nft", "list", "table", "ip", "metalk8s_policies")
SHOP = {"metadata": {"name": "shop", "labels": {"name": "shop"}}}
# What has names of ours and is something else.
STRANGER = """
delete table ip metalk8s_policies
table ip metalk8s_policies {
    set known { type inet_service; }
    map strange { type ipv4_addr : verdict; flags interval; elements = { 10.0.0.0/8 : drop }; }
    chain ingress { type filter hook input priority 0; counter; }
}
"""
MORE = "add counter ip metalk8s_policies strange"
DENY = {"metadata": {"name": "deny", "namespace": "shop"}, "spec": {"podSelector": {}}}
ALLOW = {
    "metadata": {"name": "allow", "namespace": "shop"},
    "spec": {
        "podSelector": {"matchLabels": {"app": "new"}},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "two"}}}]}],
    },
}


def pod(name, node, address=""):
    status = {"phase": "Running", "podIP": address} if address else {"phase": "Pending"}
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": name}},
        "spec": {"nodeName": node, "containers": [{}]},
        "status": status,
    }


@pytest.fixture(scope="module")
def site(namespaces, tmp_path_factory):
    found = Site(tmp_path_factory.mktemp("isolation"))
    found.api.others[NAMESPACES].put(SHOP)
    for name in ("one", "two"):
        found.api.others[PODS].put(pod(name, name, found.pod(name)))
        found.join(name)
    for name in ("one", "two"):
        until(lambda name=name: found.health(name), f"{name} is ready")
    yield found
    found.close()


@pytest.fixture
def policies(site):
    """Put policies, and take them away afterwards."""
    collection = site.api.others[POLICIES]
    yield collection
    for name in list(collection.objects):
        collection.remove(name)
    until(lambda: "chain ingress" not in site.inside("one", *TABLE), "no policy is left")


def rules(site):
    """Return the table on machine ``one``, whatever was made first in it."""
    listed = site.inside("one", "nft", "-s", *TABLE[1:], check=False)
    return sorted(listed.replace(",", " ").split())


class NewPod:
    """A pod that comes to machine ``one``, as a kubelet, CNI and the API make it."""

    def __init__(self, site):
        self.site, self.place = site, site.name("new")

    def plug(self):
        """Do what ``ptp`` does: from here on, packets could come."""
        first = "10.233.1.1"
        run("ip", "netns", "add", self.place)
        self.site.cable("one", "new", "eth0", f"{NEW}/32", port="veth9")
        for words in (f"address add {first}/32 dev veth9", f"route add {NEW}/32 dev veth9"):
            self.site.inside("one", "ip", *words.split())
        for words in (f"route add {first}/32 dev eth0", f"route add default via {first}"):
            self.site.inside("new", "ip", *words.split())
        self.ear = within(self.place, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 8))
        self.ear.setblocking(False)

    def note(self):
        """Do what the engine's library does, before a container starts."""
        document = {
            "networkName": "metalk8s",
            "cniArgs": [["K8S_POD_NAMESPACE", "shop"], ["K8S_POD_NAME", "new"]],
            "result": {"ips": [{"version": "4", "address": f"{NEW}/24"}]},
        }
        self.file = self.site.sandboxes("one") / "metalk8s-abc-eth0"
        self.file.write_text(json.dumps(document))

    def heard(self):
        """Return who was heard, by address."""
        found = set()
        while select.select([self.ear], [], [], 0)[0]:
            data = self.ear.recv(2048)
            if data[9] == socket.IPPROTO_UDP:
                found.add(socket.inet_ntoa(data[12:16]))
        return found

    def close(self):
        self.ear.close()
        self.file.unlink()
        run("ip", "netns", "del", self.place)


def known(site):
    """Tell whether the agent knows the new pod."""
    listed = site.inside("one", "nft", "list", "map", "ip", "metalk8s_policies", "ingress_pods",
                         check=False)  # fmt: skip
    return NEW in listed


@pytest.fixture
def senders(site):
    """Send to the new pod's address all the time: from the other machine, and from beside it."""
    stop = threading.Event()
    places = {name: site.name(f"pod-{name}") for name in ("one", "two")}
    mouths = [within(place, lambda: socket.socket(type=socket.SOCK_DGRAM)) for place in
              places.values()]  # fmt: skip

    def talk():
        while not stop.wait(0.002):
            for mouth in mouths:
                try:
                    mouth.sendto(b"x", (NEW, PORT))
                except OSError:
                    continue  # nobody there yet

    thread = threading.Thread(target=talk)
    thread.start()
    yield
    stop.set()
    thread.join()
    for mouth in mouths:
        mouth.close()


@pytest.fixture
def new(site, senders):
    found = NewPod(site)
    yield found
    site.api.others[PODS].remove("new")
    found.close()


def test_a_new_pod_under_default_deny_never_gets_a_packet(site, policies, new):
    """However late the agent hears of it; and gets those of whom a policy lets in at last."""
    policies.put(DENY)
    until(lambda: "chain ingress" in site.inside("one", *TABLE), "the policy holds")
    new.plug()
    assert not stays_silent(new)
    site.api.others[PODS].put(pod("new", "one"))
    assert not stays_silent(new)
    new.note()
    until(lambda: known(site), "the agent knows it")
    assert not stays_silent(new)
    site.api.others[PODS].put(pod("new", "one", NEW))
    assert not stays_silent(new)
    policies.put(ALLOW)
    until(lambda: site.pod("two") in new.heard(), "whom the policy lets in")
    policies.remove("allow")
    until(lambda: not stays_silent(new), "it is forbidden again")
    assert not stays_silent(new)


def stays_silent(new):
    """Return who was heard in a moment in which each sender sent a hundred packets."""
    threading.Event().wait(0.3)
    return new.heard()


def test_a_pod_that_nothing_selects_waits_for_the_agent_only(site, policies, new):
    """It is heard of by the engine's note, without a word of the API on its address."""
    elsewhere = {"metadata": {"name": "other", "namespace": "elsewhere"}, "spec": DENY["spec"]}
    policies.put(elsewhere)
    until(lambda: "chain ingress" in site.inside("one", *TABLE), "the policy holds")
    site.api.others[PODS].put(pod("new", "one"))
    new.plug()
    assert not stays_silent(new)
    new.note()
    until(lambda: new.heard() == {site.pod("one"), site.pod("two")}, "both are heard", 5)


def test_a_dead_agent_leaves_its_rules(site, policies):
    """And one that starts while the API server is away changes none of them."""
    policies.put(ALLOW | {"spec": {"podSelector": {"matchLabels": {"app": "one"}}, "ingress": []}})
    until(lambda: site.probe("pod-two", site.pod("one")) == "nothing", "the policy holds")
    assert site.probe("one", site.pod("one")) == "answer", "the machine reaches its pod"
    assert site.probe("pod-one", site.pod("two"), MTU) == "answer", "it may ask"
    before = rules(site)
    site.kill("one")
    assert site.probe("pod-two", site.pod("one")) == "nothing"
    collection = site.api.others[POLICIES]
    collection.faults += [Fault(watch=False, status=503) for _ in range(3)]
    site.start("one")
    until(lambda: not collection.faults, "it has asked in vain", 60)
    assert rules(site) == before
    assert site.probe("pod-two", site.pod("one")) == "nothing"
    until(lambda: site.health("one"), "it is ready when the API server is back", 60)
    assert rules(site) == before


@pytest.mark.parametrize(
    "destroy",
    [
        ("nft", "flush", "ruleset"),
        ("nft", "delete", "table", "ip", "metalk8s_policies"),
        ("nft", "flush", "map", "ip", "metalk8s_policies", "ingress_pods"),
        ("nft", "flush", "chain", "ip", "metalk8s_policies", "ingress"),
        ("nft", STRANGER),
        ("nft", MORE),
    ],
    ids=lambda argv: " ".join(argv) if STRANGER not in argv else "names that are something else",
)
def test_what_somebody_took_away_is_back(site, policies, destroy):
    policies.put(DENY)
    until(lambda: site.probe("pod-two", site.pod("one")) == "nothing", "the policy holds")
    before = rules(site)
    site.inside("one", *destroy)
    until(lambda: rules(site) == before, "it is back", 5)
    assert site.probe("pod-two", site.pod("one")) == "nothing"


def test_the_table_of_the_machines_start_is_replaced(site, policies):
    """It lets no pod's packet through; the agent's first word does away with it."""
    site.kill("one", signal.SIGTERM)
    site.inside("one", "nft", "delete", "table", "ip", "metalk8s_policies")
    closed = Path(__file__).parents[3] / "salt/states/metalk8s/firewall/files/pods.nft.j2"
    text = closed.read_text().replace("{{ metalk8s.pod_network.policies }}", "metalk8s_policies")
    text = text.replace("{{ metalk8s.networks.pods }}", "10.233.0.0/16")
    site.inside("one", "nft", "-f", "-", text="\n".join(text.splitlines()[1:]) + "\n")
    assert site.probe("pod-two", site.pod("one")) == "nothing"
    assert site.probe("one", site.pod("one")) == "answer"
    site.start("one")
    until(lambda: site.probe("pod-two", site.pod("one")) == "answer", "the agent has begun")
    assert "closed" not in site.inside("one", *TABLE)


def large(number, node, address):
    """Return a pod as large as real ones are."""
    item = pod(f"large-{number}", node, address)
    space = f"space-{number % 50}"
    item["metadata"].update(
        namespace=space, creationTimestamp="2026-11-01T00:00:00Z", uid=f"{number:032x}"
    )
    item["metadata"]["labels"] = {
        "app": f"app-{number % 250}",
        "pod-template-hash": f"{number % 250:010x}",
        "release": f"release-{number % 40}",
    }
    item["metadata"]["managedFields"] = [
        {"manager": "kubelet", "fieldsV1": {f"f:{name}-{n}": {} for n in range(40)}}
        for name in ("spec", "status")
    ]
    item["spec"]["containers"] = [
        {
            "name": f"container-{n}",
            "image": f"registry.invalid/{'x' * 60}:{number}",
            "ports": [{"name": f"port-{n}", "containerPort": 8000 + n}],
            "env": [{"name": f"VARIABLE_{m}", "value": "value" * 4} for m in range(30)],
        }
        for n in range(2)
    ]
    return item


def allowing(number):
    team = {"matchLabels": {"team": f"t{number % 5}"}}
    return {
        "metadata": {"name": f"policy-{number}", "namespace": f"space-{number % 50}"},
        "spec": {
            "podSelector": {"matchLabels": {"app": f"app-{number % 250}"}},
            "ingress": [
                {"from": [{"namespaceSelector": team}],
                 "ports": [{"port": 8000 + number % 100}, {"port": "port-0"}]},
            ],
        },
    }  # fmt: skip


def test_five_thousand_pods_and_a_thousand_policies_fit_into_sixty_mebibytes(site):
    """On 200 machines; and what is new among so many holds within seconds."""
    api = site.api
    for number in range(50):
        labels = {"team": f"t{number % 5}"}
        api.others[NAMESPACES].put({"metadata": {"name": f"space-{number}", "labels": labels}})
    for number in range(4, 202):
        api.put(node(f"more-{number}", f"10.3.0.{number}", f"10.233.{number}.0/24"))
    for number in range(5000):
        machine = number % 200 + 2
        name = "one" if machine <= 3 else f"more-{machine}"
        third = 1 if machine <= 3 else machine
        address = f"10.233.{third}.{10 + number // 200 * 2 + number % 2}"
        api.others[PODS].put(large(number, name, address))
    for number in range(1000):
        api.others[POLICIES].put(allowing(number))
    site.kill("one", signal.SIGTERM)
    site.start("one")
    until(lambda: site.health("one"), "it is ready", 120)
    began = time.monotonic()
    api.others[POLICIES].put({**DENY, "metadata": {"name": "last", "namespace": "shop"}})
    until(lambda: site.probe("pod-two", site.pod("one")) == "nothing", "it holds", 30)
    took = time.monotonic() - began
    for number in range(0, 5000, 50):
        item = api.others[PODS].objects[f"large-{number}"]
        item["metadata"]["labels"]["beat"] = "1"
        api.others[PODS].put(item)
    api.others[POLICIES].remove("last")
    until(lambda: site.probe("pod-two", site.pod("one")) == "answer", "it holds no more", 30)
    status = Path(f"/proc/{site.agents['one'].pid}/status").read_text()
    facts = dict(line.split(":\t") for line in status.splitlines())
    most = int(facts["VmHWM"].split()[0]) / 1024
    print(f"{most:.1f} MiB; {took:.1f} s")
    assert most <= 60, f"{most:.1f} MiB"
