"""What routers are told: as text, and by a real BIRD and a real router."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from ipaddress import IPv4Address

import pytest
import things
from conftest import without
from hypothesis import given
from hypothesis import strategies as st
from lan import MACHINES, Lan
from metalk8s_load_balancer import bird, objects, peers, pools
from metalk8s_load_balancer.bird import PasswordError
from metalk8s_load_balancer.placement import Seen, places
from needed import need
from waiting import until

POOL = things.pool("p", "10.9.0.0/24", announce="bgp")
SECRET = "of the routers, 7"


def router(name="r", address="10.1.0.100", **more):
    return {
        "kind": "BGPPeer",
        "metadata": {"name": name},
        "spec": {"ownAS": 64512, "peerAS": 64513, "peerAddress": address, **more},
    }


def service(number=1, **more):
    return things.service(f"s{number}", number % 60, has=f"10.9.0.{number}", pool="p", **more)


def seen(services, nodes, endpoints=(), known=POOL):
    kept = pools.pool(known)
    return Seen(
        tuple(one for one in map(objects.service, services) if one),
        {kept.name: kept},
        tuple(one for one in map(objects.node, nodes) if one),
        {f"default/{one['metadata']['name']}": objects.ready_nodes(one) for one in endpoints},
    )


def password(key):
    if key != "there":
        raise PasswordError(f"the password {key} of BGP cannot be read")
    return SECRET


NODES = [things.node(f"n{number}", f"10.1.0.{number}") for number in range(1, 4)]


@pytest.mark.parametrize(
    ("nodes", "local", "expected"),
    [
        (NODES, False, {"n1", "n2", "n3"}),
        (NODES, True, {"n2"}),
        ([*NODES[:2], things.node("n3", "10.1.0.3", cordoned=True)], False, {"n1", "n2"}),
        ([things.node("n2", "10.1.0.2", cordoned=True), NODES[0]], True, {"n2"}),
        ([things.node("n2", "10.1.0.2", ready="Unknown")], False, {"n2"}),
    ],
)
def test_who_tells(nodes, local, expected):
    known = seen([service(local=local)], nodes, [things.endpoints("s1", "n2")])
    found = places(known)
    telling = {node.name for node in known.nodes if bird.told(found, node.name)}
    assert telling == expected


def test_addresses_of_layer_2_are_not_told_nor_the_others_brought():
    from metalk8s_load_balancer import keepalived

    layer2 = things.pool("p", "10.9.0.0/24")
    numbered = service(router=1)
    for pool, by_bird, by_keepalived in ((POOL, 1, 0), (layer2, 0, 1)):
        found = places(seen([numbered], NODES, known=pool))
        assert len(bird.told(found, "n1")) == by_bird
        assert len(keepalived.held(found, "n1")) == by_keepalived


@pytest.mark.parametrize("bad", ['a"b', "a\nb", "", "é", "a" * 81, "a\tb"])
def test_a_password_that_bird_would_not_take(bad):
    peer = peers.peer(router(passwordKey="k"))
    node = objects.node(NODES[0])
    with pytest.raises(PasswordError, match="password k") as error:
        bird.render([IPv4Address("10.9.0.1")], [peer], node, lambda _key: bad, "")
    assert not bad or bad not in str(error.value)


def test_which_routers_a_machine_tells():
    node = objects.node(things.node("n", "10.1.0.1", labels={"rack": "a"}))
    here = router("here", nodeSelector={"matchLabels": {"rack": "a"}})
    there = router("there", nodeSelector={"matchLabels": {"rack": "b"}}, passwordKey="missing")
    known = [peers.peer(one) for one in (here, there)]
    text = bird.render([IPv4Address("10.9.0.1")], known, node, password, "")
    assert "# here" in text
    assert "# there" not in text
    assert bird.render([IPv4Address("10.9.0.1")], known[1:], node, password, "") == ""
    assert bird.render([], known, node, password, "") == ""


@given(
    st.lists(st.integers(1, 250), max_size=6, unique=True),
    st.lists(st.builds(router, st.text("abc", min_size=1), st.just("10.0.0.1"))),
)
def test_all_are_told_once_and_nothing_else(numbers, routers):
    known = seen([service(number) for number in numbers], NODES)
    told = bird.told(places(known), "n1")
    assert sorted(map(str, told)) == sorted(f"10.9.0.{number}" for number in numbers)
    text = bird.render(told, map(peers.peer, routers), known.nodes[0], password, "")
    words = Counter(text.split())
    assert words["blackhole;"] == (len(numbers) if routers else 0)
    assert words["neighbor"] == (len(routers) if numbers else 0)


ROUTER = """
[global.config]
  as = 64513
  router-id = "10.1.0.100"
  port = 179
{neighbors}
"""
NEIGHBOR = """
[[neighbors]]
  [neighbors.config]
    neighbor-address = "{address}"
    peer-as = 64512
    auth-password = "{password}"
  [neighbors.timers.config]
    hold-time = 3
    keepalive-interval = 1
  [neighbors.transport.config]
    passive-mode = true
"""
# A router that speaks BFD, too.
BIRD = """
router id 10.1.0.100;
protocol device {{ }}
protocol bfd {{ interface "*" {{ interval 100 ms; multiplier 3; }}; }}
{sessions}
"""
SESSION = """
protocol bgp {name} {{
    local 10.1.0.100 as 64513;
    neighbor {address} as 64512;
    bfd on;
    hold time 240;
    ipv4 {{ import all; export none; }};
}}
"""


@pytest.fixture
def site(namespaces, tmp_path):
    """Give a network whose client is a router."""
    need(without("bird", "birdcl", "gobgpd", "gobgp"))
    made = Lan(tmp_path)
    (tmp_path / "passwords").mkdir()
    (tmp_path / "passwords/there").write_text(SECRET)
    made.api.put(POOL)
    yield made
    made.close()


class Gobgp:
    """gobgpd at the client's place; asked over its own port of loopback there."""

    def __init__(self, site, text=SECRET):
        neighbors = "".join(
            NEIGHBOR.format(address=address, password=text) for address in MACHINES.values()
        )
        file = site.folder / "gobgpd.toml"
        file.write_text(ROUTER.format(neighbors=neighbors))
        self.site = site
        site._spawn("router", "client", "gobgpd", "-f", file, "--pprof-disable")

    def routes(self):
        """Return address -> machines it leads to."""
        said = self.site.inside("client", "gobgp", "global", "rib", "-j", check=False)
        try:
            found = json.loads(said)
        except ValueError:
            return {}
        if "error" in found:
            return {}
        by_address = {address: machine for machine, address in MACHINES.items()}
        return {
            prefix.removesuffix("/32"): {
                by_address[attribute["nexthop"]]
                for path in paths
                for attribute in path["attrs"]
                if "nexthop" in attribute
            }
            for prefix, paths in found.items()
        }


class BirdRouter:
    def __init__(self, site):
        sessions = "".join(
            SESSION.format(name=name, address=address) for name, address in MACHINES.items()
        )
        file = site.folder / "router.conf"
        file.write_text(BIRD.format(sessions=sessions))
        self.site, self.socket = site, site.folder / "router.ctl"
        site._spawn("router", "client", "bird", "-f", "-c", file, "-s", self.socket)

    def routes(self):
        argv = ("birdcl", "-s", str(self.socket), "show", "route", "all")
        said = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        found, prefix = {}, ""
        by_address = {address: machine for machine, address in MACHINES.items()}
        for line in said.splitlines():
            words = line.split()
            if words and words[0].endswith("/32"):
                prefix = words[0].removesuffix("/32")
            if words[:1] == ["via"]:
                found.setdefault(prefix, set()).add(by_address[words[1]])
        return found


def speak(site, **spec):
    site.api.put(router(**spec))
    for machine in MACHINES:
        site.speak(machine, f"--passwords={site.folder}/passwords")


def logs(site):
    return "\n".join(site.log(machine)[-1500:] for machine in MACHINES)


def test_routers_are_told_and_told_otherwise(site):
    gobgp = Gobgp(site)
    speak(site, passwordKey="there")
    site.api.put(service(1))
    everybody = set(MACHINES)
    until(lambda: gobgp.routes() == {"10.9.0.1": everybody}, logs(site), 30)
    # what changes leaves the session as it is, and only the change is told
    before = (site.folder / "router.log").read_text().count("Peer Up")
    site.api.put(things.endpoints("s2", "two"))
    site.api.put(service(2, local=True))
    until(lambda: gobgp.routes() == {"10.9.0.1": everybody, "10.9.0.2": {"two"}}, logs(site))
    began = time.monotonic()
    site.api.put(things.endpoints("s2", "three", unready=["two"]))
    until(lambda: gobgp.routes().get("10.9.0.2") == {"three"}, logs(site))
    assert time.monotonic() - began < 2
    site.api.parts["services"].remove("s1")
    until(lambda: set(gobgp.routes()) == {"10.9.0.2"}, logs(site))
    assert (site.folder / "router.log").read_text().count("Peer Up") == before == 3
    assert SECRET not in logs(site)
    # nothing of it is a route or an address of the machine
    assert "10.9.0" not in site.inside("three", "ip", "route")
    assert site.addresses("three") == set()


def test_a_machine_that_ends_is_forgotten_at_once(site):
    gobgp = Gobgp(site)
    speak(site, passwordKey="there")
    site.api.put(service(1))
    until(lambda: gobgp.routes() == {"10.9.0.1": set(MACHINES)}, logs(site), 30)
    for end, left in ((site.kill, {"two", "three"}), (site.end, {"three"})):
        began = time.monotonic()
        end("one" if "two" in left else "two")
        until(lambda left=left: gobgp.routes() == {"10.9.0.1": left}, "withdrawn")
        seconds = time.monotonic() - began
        print(f"\nforgotten after {seconds:.2f} s")
        # who ends by itself has to end first
        assert seconds < (1 if end == site.kill else 3)


def test_without_bfd_the_hold_time_tells(site):
    gobgp = Gobgp(site)
    speak(site, passwordKey="there", holdTime=3)
    site.api.put(service(1))
    until(lambda: gobgp.routes() == {"10.9.0.1": set(MACHINES)}, logs(site), 30)
    site.die("one")
    began = time.monotonic()
    until(lambda: gobgp.routes() == {"10.9.0.1": {"two", "three"}}, "forgotten")
    assert time.monotonic() - began < 5


def test_with_bfd_a_dead_machine_is_forgotten_within_a_second(site):
    other = BirdRouter(site)
    speak(site, bfd=True, holdTime=240)
    site.api.put(service(1))
    until(lambda: other.routes() == {"10.9.0.1": set(MACHINES)}, logs(site), 40)
    until(lambda: bfd_is_up(other) == 3, "BFD")
    site.die("one")
    began = time.monotonic()
    until(lambda: other.routes() == {"10.9.0.1": {"two", "three"}}, "forgotten")
    seconds = time.monotonic() - began
    print(f"\nforgotten after {seconds:.2f} s")
    assert seconds < 1


def bfd_is_up(other):
    argv = ("birdcl", "-s", str(other.socket), "show", "bfd", "sessions")
    said = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    return sum(" Up " in line for line in said.splitlines())


def test_who_has_another_password_is_told_nothing(site):
    gobgp = Gobgp(site, "another")
    speak(site, passwordKey="there")
    site.api.put(service(1))
    until(lambda: "bird began" in site.log("one"), logs(site))
    time.sleep(4)
    assert gobgp.routes() == {}


def test_a_password_that_is_missing_leaves_the_rest_as_it_is(site):
    site.api.parts["loadbalancerpools"].put(things.pool("q", "10.1.0.200-10.1.0.250"))
    site.api.put(things.service("l2", has="10.1.0.200", pool="q", router=1))
    site.api.put(service(1))
    speak(site, passwordKey="missing")
    until(lambda: "missing of BGP cannot be read" in site.log("one"), logs(site))
    until(lambda: len(site.holders("10.1.0.200")) == 1, logs(site))


def test_a_bird_that_is_killed_begins_anew(site):
    gobgp = Gobgp(site)
    speak(site, passwordKey="there")
    site.api.put(service(1))
    until(lambda: gobgp.routes() == {"10.9.0.1": set(MACHINES)}, logs(site), 30)
    found = site.inside("one", "pgrep", "--full", f"bird -f -c {site.folder}/one/").split()
    for pid in found:
        site.inside("one", "kill", f"-{int(signal.SIGKILL)}", pid)
    until(lambda: site.log("one").count("bird began") == 2, logs(site))
    until(lambda: gobgp.routes() == {"10.9.0.1": set(MACHINES)}, logs(site), 30)
