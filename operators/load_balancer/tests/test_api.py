"""The allocator with the API server that the ISO has, as the accounts of its pods."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import jinja2
import pytest
import things
import yaml
from control_plane import ControlPlane, free_ports, lacking
from metalk8s_load_balancer import objects, peers, pools
from metalk8s_operators.client import ApiError
from needed import need
from waiting import until

ROOT = Path(__file__).resolve().parents[3]
STATES = ROOT / "salt/states/metalk8s"
ALLOCATOR, SPEAKER = "kube-system:load-balancer-allocator", "kube-system:load-balancer-speaker"
SERVICES = "/api/v1/namespaces/default/services"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def rendered(name):
    """Return the objects of a file of the states."""
    defaults = yaml.safe_load((STATES / "parameters/defaults.yaml").read_text())
    environment = jinja2.Environment(
        extensions=["jinja2.ext.do"], autoescape=False, undefined=jinja2.StrictUndefined
    )
    environment.filters["json"] = json.dumps
    environment.filters["sha256"] = lambda text: hashlib.sha256(text.encode()).hexdigest()
    environment.filters["is_ipv4"] = lambda text: text.count(".") == 3
    metalk8s = {
        "generated": "made by a test",
        "load_balancer": {**defaults["load_balancer"], "image": {"reference": "image"}},
        "networks": {
            "pods": "10.233.0.0/16",
            "services": "10.96.0.0/12",
            "api_service": "10.96.0.1",
            "workload_plane": {"networks": ["10.1.0.0/24"]},
        },
        "ports": yaml.safe_load((STATES / "parameters/ports.yaml").read_text()),
        "keepalived": {"router": 51},
        "kube_apiserver": {"host": "10.1.0.9"},
        "balancer": {"url": "https://127.0.0.1:7443"},
        "cluster": defaults["cluster"],
    }
    text = (STATES / "load-balancer/files" / name).read_text()
    return list(yaml.safe_load_all(environment.from_string(text).render(metalk8s=metalk8s)))


def container(kind):
    """Return the command line of a program, as the states have it."""
    [found] = [one for one in rendered("objects.yaml.j2") if one["kind"] == kind]
    return found["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    need(lacking())
    made = ControlPlane(tmp_path_factory.mktemp("plane"), (ALLOCATOR, SPEAKER))
    client = made.client()
    for namespace in ("default", "kube-system"):
        until(lambda name=namespace: is_there(client, f"/api/v1/namespaces/{name}"), "namespaces")
    for definition in rendered("definition.yaml.j2"):
        client.write("POST", CRDS, definition)
    for one in rendered("objects.yaml.j2"):
        if one["apiVersion"].startswith("rbac"):
            namespace = one["metadata"].get("namespace")
            middle = f"/namespaces/{namespace}" if namespace else ""
            client.write("POST", f"{RBAC}{middle}/{one['kind'].lower()}s", one)
    for path in (pools.PATH, peers.PATH):
        until(lambda path=path: is_there(client, path), "the kind")
    yield made
    made.close()


def is_there(client, path):
    try:
        return client.get(path, {})
    except ApiError:
        return None


def put(client, path, item):
    item = json.loads(json.dumps(item))
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        item["metadata"].pop(key, None)
    return client.write("POST", path, item)


def want(client, name, **more):
    item = things.service(name, **more)
    item["metadata"].pop("annotations")
    item["spec"]["ports"] = [{"port": 80}]
    return put(client, SERVICES, item)


def events(client, name):
    found = client.get("/api/v1/namespaces/default/events", {})["items"]
    return {one["reason"]: one["message"] for one in found if one["involvedObject"]["name"] == name}


def address(client, name):
    found = objects.service(client.get(f"{SERVICES}/{name}", {}))
    return str(found.given.address) if found and found.given else ""


class Programs:
    def __init__(self, plane, folder):
        self.plane, self.folder = plane, folder
        self.running = {}

    def start(self, name):
        """Start a copy of the allocator, with the rights and arguments of its pod."""
        client = self.plane.client(ALLOCATOR)
        [health] = free_ports(1)
        words = container("Deployment")
        words = [w for w in words if not w.startswith(("--api", "--node", "--health-port"))]
        paths = [str(ROOT / "operators/load_balancer"), str(ROOT / "operators/library")]
        script = (
            f"import sys; sys.path += {paths!r}; import pathlib; "
            "from metalk8s_operators import client; "
            f"client.Client.__init__.__defaults__ = (pathlib.Path({str(client.account)!r}),); "
            "from metalk8s_load_balancer.__main__ import main; sys.exit(main(sys.argv[1:]))"
        )
        argv = [
            *(sys.executable, "-B", "-c", script, *words),
            *(f"--api={client.url}", f"--node={name}", f"--health-port={health}"),
        ]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(argv, stdout=log, stderr=log)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def stop(self, name, how=signal.SIGTERM):
        process = self.running.pop(name)
        process.send_signal(how)
        return process.wait(20)


@pytest.fixture
def programs(plane, tmp_path):
    made = Programs(plane, tmp_path)
    yield made
    for name in list(made.running):
        made.stop(name, signal.SIGKILL)
    client = plane.client()
    client.write("DELETE", pools.PATH, {})
    for one in client.get(SERVICES, {})["items"]:
        if one["metadata"]["name"] != "kubernetes":
            client.write("DELETE", f"{SERVICES}/{one['metadata']['name']}", {})
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/load-balancer"
    if is_there(client, path):
        client.write("DELETE", path, {})


def test_a_service_from_its_birth_to_its_end(plane, programs):
    client = plane.client()
    programs.start("one")
    want(client, "first")
    until(lambda: events(client, "first").get("NoPool"), programs.log("one"))
    put(client, pools.PATH, things.pool("p", "192.0.2.10-192.0.2.11"))
    began = time.monotonic()
    until(lambda: address(client, "first") == "192.0.2.10", programs.log("one"))
    assert time.monotonic() - began < 5
    # The address comes first, then the word.
    until(lambda: "AddressAssigned" in events(client, "first"), programs.log("one"))
    assert events(client, "first")["AddressAssigned"] == "192.0.2.10 of pool p"
    want(client, "asks", asks="192.0.2.10")
    until(lambda: "AddressTaken" in events(client, "asks"), programs.log("one"))
    assert events(client, "asks")["AddressTaken"] == "default/first has 192.0.2.10"
    want(client, "second")
    until(lambda: address(client, "second") == "192.0.2.11", programs.log("one"))
    want(client, "third")
    until(lambda: "PoolExhausted" in events(client, "third"), programs.log("one"))
    # another type: it is free for who asked for it
    port = {"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": None}]}}
    client.write("PATCH", f"{SERVICES}/first", port)
    until(lambda: address(client, "asks") == "192.0.2.10", programs.log("one"))
    assert address(client, "first") == ""
    notes = client.get(f"{SERVICES}/first", {})["metadata"].get("annotations", {})
    assert not notes
    # deleted
    client.write("DELETE", f"{SERVICES}/second", {})
    until(lambda: address(client, "third") == "192.0.2.11", programs.log("one"))
    assert address(client, "asks") == "192.0.2.10"
    # no pool any more
    client.write("DELETE", f"{pools.PATH}/p", {})
    until(lambda: not address(client, "asks") and not address(client, "third"), "taken back")


def test_what_somebody_writes_into_notes_gets_them_nothing(plane, programs):
    client = plane.client()
    programs.start("one")
    put(client, pools.PATH, things.pool("p", "192.0.2.10-192.0.2.19"))
    for name in ("a", "b"):
        want(client, name)
        until(lambda name=name: address(client, name), programs.log("one"))
    notes = {objects.POOL: "other", objects.ROUTER: "1"}
    client.write("PATCH", f"{SERVICES}/b", {"metadata": {"annotations": notes}})

    def mended():
        found = objects.service(client.get(f"{SERVICES}/b", {}))
        return found.given.pool == "p" and found.given.router == 2

    until(mended, programs.log("one"))
    assert (address(client, "a"), address(client, "b")) == ("192.0.2.10", "192.0.2.11")


def test_another_copy_goes_on_and_many_at_once_get_different_addresses(plane, programs):
    client = plane.client()
    put(client, pools.PATH, things.pool("p", "192.0.2.0/24"))
    programs.start("one")
    until(lambda: '"leads"' in programs.log("one"), programs.log("one"))
    programs.start("two")
    for number in range(30):
        want(client, f"s{number}")
    assert programs.stop("one") == 0
    until(lambda: '"leads"' in programs.log("two"), programs.log("two"))

    def all_given():
        found = [address(client, f"s{number}") for number in range(30)]
        return all(found) and len(set(found)) == 30

    until(all_given, programs.log("two"), 40)


def test_after_the_api_server_was_away_it_goes_on(plane, programs):
    client = plane.client()
    put(client, pools.PATH, things.pool("p", "192.0.2.0/24"))
    programs.start("one")
    want(client, "before")
    until(lambda: address(client, "before"), programs.log("one"))
    plane.stop("api")
    until(lambda: "leads no longer" in programs.log("one"), programs.log("one"), 30)
    plane.start_api()
    want(client, "after")
    until(lambda: address(client, "after") == "192.0.2.2", programs.log("one"), 40)
    assert address(client, "before") == "192.0.2.1"


def test_addresses_of_machines_are_no_services(plane, programs):
    client = plane.client()
    node = things.node("machine", "192.0.2.10")
    client.write("POST", "/api/v1/nodes", node)
    status = {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.11"}]}}
    client.write("PATCH", "/api/v1/nodes/machine/status", status)
    put(client, pools.PATH, things.pool("p", "192.0.2.10-192.0.2.12", "10.1.0.9", "10.96.0.9"))
    programs.start("one")
    want(client, "s")
    until(lambda: address(client, "s") == "192.0.2.12", programs.log("one"))
    for asked in ("10.1.0.9", "10.96.0.9"):
        want(client, f"asks-{asked.replace('.', '-')}", asks=asked)
        name = f"asks-{asked.replace('.', '-')}"
        until(lambda name=name: "AddressReserved" in events(client, name), programs.log("one"))
    client.write("DELETE", "/api/v1/nodes/machine", {})


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"addresses": []},
        {"addresses": ["192.0.2.256"]},
        {"addresses": ["192.0.2.0/33"]},
        {"addresses": ["fe80::1"]},
        {"addresses": ["192.0.2.1-"]},
        {"addresses": ["192.0.2.1"], "announce": "arp"},
        {"addresses": ["192.0.2.1"], "autoAssign": "yes"},
        {"addresses": ["192.0.2.1"], "namespaces": [""]},
        {"addresses": ["192.0.2.1"], "serviceSelector": {"matchLabels": {"a": 1}}},
    ],
)
def test_a_pool_that_is_none_is_refused(plane, spec):
    item = {**things.pool("bad"), "spec": spec}
    with pytest.raises(ApiError, match="422"):
        put(plane.client(), pools.PATH, item)


def test_what_a_pool_is_when_little_is_said(plane, programs):
    made = put(plane.client(), pools.PATH, things.pool("p", "192.0.2.1 - 192.0.2.9", "10.0.0.0/8"))
    assert made["spec"]["announce"] == "layer2"
    assert made["spec"]["autoAssign"] is True
    assert len(pools.pool(made).ranges) == 2


def test_what_a_pool_says_that_no_schema_sees_is_an_event(plane, programs):
    client = plane.client()
    put(client, pools.PATH, things.pool("odd", "192.0.2.9-192.0.2.1", "192.0.2.3"))
    programs.start("one")
    want(client, "s")
    until(lambda: address(client, "s") == "192.0.2.3", programs.log("one"))
    until(lambda: "BadAddresses" in events(client, "odd"), programs.log("one"))
    assert "192.0.2.9-192.0.2.1" in events(client, "odd")["BadAddresses"]


@pytest.mark.parametrize(
    ("who", "method", "path", "body"),
    [
        (ALLOCATOR, "POST", pools.PATH, things.pool("p", "192.0.2.1")),
        (ALLOCATOR, "PATCH", f"{SERVICES}/kubernetes", {"metadata": {"labels": {"a": "b"}}}),
        (ALLOCATOR, "POST", SERVICES, {"metadata": {"name": "x"}}),
        (SPEAKER, "PATCH", f"{SERVICES}/kubernetes/status", {}),
        (SPEAKER, "POST", pools.PATH, things.pool("p", "192.0.2.1")),
        (SPEAKER, "GET", "/api/v1/secrets?", {}),
        (ALLOCATOR, "GET", "/api/v1/secrets?", {}),
    ],
)
def test_what_they_may_not(plane, who, method, path, body):
    with pytest.raises(ApiError, match="403"):
        plane.client(who).write(method, path, body)


def test_examples_of_the_manual_are_taken(plane, programs):
    pages = [(ROOT / f"docs/explanation/{one}.md").read_text() for one in ("load-balancing", "bgp")]
    blocks = [part.partition("```")[0] for page in pages for part in page.split("```yaml")[1:]]
    found = [one for block in blocks for one in yaml.safe_load_all(block)]
    assert [one["kind"] for one in found] == ["LoadBalancerPool", "LoadBalancerPool", "BGPPeer"]
    for one in found:
        path = pools.PATH if one["kind"] == "LoadBalancerPool" else peers.PATH
        made = plane.client().write("POST", path, one)
        assert pools.pool(made) if path == pools.PATH else peers.peer(made)
    plane.client().write("DELETE", peers.PATH, {})


PEER = {"ownAS": 64512, "peerAS": 4200000000, "peerAddress": "10.1.0.254"}


@pytest.mark.parametrize(
    "change",
    [
        {"ownAS": 0},
        {"peerAS": 4294967295},
        {"peerAddress": "router"},
        {"peerAddress": "10.1.0.256"},
        {"passwordKey": "../x"},
        {"holdTime": 2},
        {"bfd": "yes"},
    ],
)
def test_a_router_that_is_none_is_refused(plane, change):
    item = {"apiVersion": "metalk8s.scality.com/v1alpha1", "kind": "BGPPeer"}
    item["metadata"] = {"name": "bad"}
    with pytest.raises(ApiError, match="422"):
        plane.client().write("POST", peers.PATH, {**item, "spec": {**PEER, **change}})


def test_what_a_router_is_when_little_is_said(plane):
    item = {"apiVersion": "metalk8s.scality.com/v1alpha1", "kind": "BGPPeer"}
    item |= {"metadata": {"name": "r"}, "spec": PEER}
    made = peers.peer(plane.client().write("POST", peers.PATH, item))
    assert (made.hold, made.bfd, made.password_key, made.peer_as) == (9, False, "", 4200000000)
    assert plane.client(SPEAKER).get(peers.PATH, {})["items"]


@pytest.mark.parametrize("path", ["services", "endpoints", "nodes"])
def test_what_a_speaker_may(plane, path):
    client = plane.client(SPEAKER)
    assert "items" in client.get(f"/api/v1/{path}", {})
    assert "items" in client.get(pools.PATH, {})


def test_the_arguments_of_the_pods_are_understood():
    from metalk8s_load_balancer import settings

    found = settings.read(container("DaemonSet"))
    assert (found.action, str(found.networks[0])) == ("speak", "10.1.0.0/24")
    assert found.folder == Path("/run/metalk8s-load-balancer")
    assert found.reserved.routers == {51}
    chosen = settings.read(container("Deployment"))
    assert chosen.reserved.routers == {51}
    assert str(next(iter(chosen.reserved.addresses))) == "10.1.0.9"
