"""What the network of pods costs: ``python -m tests.bench.network``, as root.

Three machines of namespaces with the real agent: two in one network, the third behind a router.
``iperf3`` sends from pod to pod and from host to host in turn, round by round, over the same
cables; what is told is the median of the rounds' ratios. Once the cables carry RATE, as cards do;
once as much as this machine's processors move, all of which is shared by both ends. Then what
policies add to a new connection, and, beside the real API server with objects and no kubelets, how
much memory an agent takes and how soon an object has its effect.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.bench import real_api
from tests.bench.real_api import RealApi
from tests.bench.verdict import at_least, at_most

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [
    str(ROOT / "operators" / folder)
    for folder in ("network", "network/tests", "library", "library/tests")
]

ENDS, PORT, TRAFFIC = str(ROOT / "tests/bench/ends.py"), 7000, 5201
RATE = "1gbit"  # of a cable
ENDS_OF_CABLES = (
    *(("switch", port) for port in ("one", "two", "r")),
    *((machine, "eth0") for machine in ("one", "two", "three")),
    *(("router", port) for port in ("left", "right")),
)
PATHS = {"direct": ("one", "two"), "VXLAN": ("one", "three")}
DIRECT, FLAT, MEMORY = 0.9, 1.2, 60.0  # ratio, times the cost without policies, MiB
POLICIES = (0, 100, 1000)
BLOCK = re.compile(r"\b172\.16\.\d+\.\d+")  # of a policy of ours, in the packet filter
NODES, PODS = 200, 5000
SETTLED = 180.0  # seconds until an agent has done what it has to
QUIET = 1.5  # seconds without a change, after which an agent waits for the next


@contextlib.contextmanager
def limited(site: Any, rate: str) -> Iterator[None]:
    """Let the cables of all machines carry so much, in both directions."""
    bucket = ("tbf", "rate", rate, "burst", "256k", "latency", "20ms")
    for place, port in ENDS_OF_CABLES:
        site.inside(place, "tc", "qdisc", "add", "dev", port, "root", *bucket)
    yield
    for place, port in ENDS_OF_CABLES:
        site.inside(place, "tc", "qdisc", "del", "dev", port, "root")


@contextlib.contextmanager
def serving(site: Any, place: str, *words: str, until: str) -> Iterator[None]:
    """Run a server in a place; it says when it is ready."""
    argv = ["ip", "netns", "exec", site.name(place), *words]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        for line in process.stdout:
            if until in line:
                break
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def throughput(site: Any, here: str, there: str, address: str, length: int) -> float:
    """Return the bits a second that one connection brings there."""
    words = ("iperf3", "--server", "--one-off", "--forceflush", "--port", str(TRAFFIC))
    with serving(site, there, *words, until="listening"):
        asked = ("iperf3", "--json", "--time", str(length), "--port", str(TRAFFIC))
        told = json.loads(site.inside(here, *asked, "--client", address))
    return float(told["end"]["sum_received"]["bits_per_second"])


def ask(site: Any, here: str, what: str, address: str, count: int) -> float:
    """Return the median of the seconds that something takes."""
    said = site.inside(here, sys.executable, ENDS, what, address, str(PORT), str(count))
    return float(said)


def paths(site: Any, rounds: int, length: int) -> dict[str, list[float]]:
    """Measure pods and hosts in turn; tell, and return the ratios."""
    from site_ import MACHINE

    found: dict[str, list[float]] = {}
    for name, (here, there) in PATHS.items():
        hosts, pods = [], []
        for _ in range(rounds):
            hosts.append(throughput(site, here, there, MACHINE[there][0], length))
            pods.append(throughput(site, f"pod-{here}", f"pod-{there}", site.pod(there), length))
        found[name] = [pod / host for host, pod in zip(hosts, pods, strict=True)]
        print(
            f"  {name:6} hosts {statistics.median(hosts) / 1e9:6.3f} Gbit/s   pods "
            f"{statistics.median(pods) / 1e9:6.3f} Gbit/s   {statistics.median(found[name]):.3f} "
            f"times ({min(found[name]):.3f} to {max(found[name]):.3f})"
        )
    return found


def latency(site: Any, rounds: int) -> None:
    """Tell how long a packet of 64 bytes is on its way there and back."""
    from site_ import MACHINE

    for name, (here, there) in PATHS.items():
        answer = (sys.executable, ENDS, "answer", str(PORT))
        with serving(site, there, *answer, until="ready"), \
                serving(site, f"pod-{there}", *answer, until="ready"):  # fmt: skip
            pairs = [
                (
                    ask(site, here, "echo", MACHINE[there][0], 2000),
                    ask(site, f"pod-{here}", "echo", site.pod(there), 2000),
                )
                for _ in range(rounds)
            ]
        hosts, pods = (statistics.median(one) * 1e6 for one in zip(*pairs, strict=True))
        ratio = statistics.median(pod / host for host, pod in pairs)
        print(f"  {name:6} hosts {hosts:6.1f} µs   pods {pods:6.1f} µs   {ratio:.3f} times")


def labelled(name: str, node: str, address: str) -> dict[str, Any]:
    """Return a pod, as the API has it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "registry.invalid/image:1"}],
        },
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
    }


def policy(number: int, app: str) -> dict[str, Any]:
    """Return a policy for the server: one block, one group of pods and one port each.

    :param app: the group.
    """
    block = {"cidr": f"172.16.{number >> 8}.{number & 255}/32"}
    client = {"podSelector": {"matchLabels": {"app": app}}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"policy-{number}", "namespace": "default"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "server"}},
            "ingress": [
                {
                    "from": [{"ipBlock": block}, client],
                    "ports": [{"port": PORT if app == "client" else PORT + 1 + number}],
                }
            ],
        },
    }


def connections(site: Any, rounds: int) -> float:
    """Tell the cost of a connection to a pod with policies; return that of most by that of none."""
    from waiting import until

    here, there = PATHS["direct"]
    pods = [labelled("client", here, site.pod(here)), labelled("server", there, site.pod(there))]
    spaces = [{"metadata": {"name": "default", "labels": {}}}]
    found: dict[int, list[float]] = {count: [] for count in POLICIES}
    answer = (sys.executable, ENDS, "answer", str(PORT))
    with serving(site, f"pod-{there}", *answer, until="ready"):
        for _ in range(rounds):
            for count in POLICIES:
                last = count - 1
                named = [policy(n, "client" if n == last else f"g{n}") for n in range(count)]
                site.api.be(spaces, pods, named)

                def holds(blocks: int = count) -> bool:
                    listed = site.inside(there, "nft", "list", "table", "ip", "metalk8s_policies")
                    return len(set(BLOCK.findall(listed))) == blocks

                until(holds, f"{count} policies", SETTLED)
                found[count].append(ask(site, f"pod-{here}", "connect", site.pod(there), 2000))
    for count in POLICIES:
        print(f"  {count:5} policies: {statistics.median(found[count]) * 1e6:6.1f} µs")
    most, none = found[POLICIES[-1]], found[POLICIES[0]]
    return statistics.median(a / b for a, b in zip(most, none, strict=True))


def fill(api: RealApi) -> None:
    """Let there be Nodes as large as real ones, and pods on all of them."""
    from nodes import node

    images = [
        {"names": [f"registry.invalid/{'x' * 60}/{n}@sha256:{n:064x}"], "sizeBytes": n}
        for n in range(50)
    ]
    for number in range(1, NODES + 1):
        address = f"10.{1 if number % 2 else 3}.0.{number}"
        item = node(name_of(number), address, f"10.233.{number}.0/24")
        item["status"]["images"] = images
        del item["metadata"]["creationTimestamp"]
        api.call("POST", "/api/v1/nodes", item)
    for number in range(PODS):
        place, rank = number % NODES + 1, number // NODES
        item = labelled(f"pod-{number}", name_of(place), f"10.233.{place}.{rank + 2}")
        status = item.pop("status")
        api.call("POST", "/api/v1/namespaces/default/pods", item)
        path = f"/api/v1/namespaces/default/pods/pod-{number}/status"
        api.call("PATCH", path, {"status": status})


def name_of(number: int) -> str:
    """Return the name of a Node; the first is that of the machine with the agent."""
    return "one" if number == 1 else f"more-{number}"


@contextlib.contextmanager
def agent(site: Any, api: RealApi) -> Iterator[int]:
    """Run the agent of a machine as a pod has it, with an account; give its process."""
    folder = "/run/secrets/kubernetes.io/serviceaccount"
    # in the mounts of `ip netns exec`, which nobody else has
    script = f"mount -t tmpfs none /run && mkdir -p {folder} && cp {api.account}/* {folder}/"
    site.start("one", api.url, ("sh", "-c", f'{script} && exec "$@"', "sh"))
    try:
        yield site.agents["one"].pid
    finally:
        site.kill("one")


def memory(pid: int) -> float:
    """Return the most that a process had, in MiB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def effect(site: Any, monitor: tuple[str, ...], word: str, act: Callable[[], object]) -> float:
    """Return the seconds from an act to the first word of the kernel about it."""
    argv = ["ip", "netns", "exec", site.name("one"), *monitor]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        time.sleep(QUIET)
        began = time.monotonic()
        act()
        for line in process.stdout:
            if word in line:
                break
        taken = time.monotonic() - began
        process.kill()
    return taken


def objects(site: Any, folder: pathlib.Path, rounds: int) -> float:
    """Tell what objects of a real API server cost an agent; return its MiB."""
    from nodes import node
    from waiting import until
    from yard import within

    policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    routes, tables = ("ip", "monitor", "route"), ("stdbuf", "-oL", "nft", "monitor")
    router = site.name("router")
    with real_api.running(router, "10.1.0.254", folder) as api:
        within(router, lambda: real_api.await_ready(api, folder / "kube-apiserver.log"))
        began = time.monotonic()
        within(router, lambda: fill(api))
        print(f"  {NODES} Nodes and {PODS} pods are there after {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        with agent(site, api) as pid:
            until(lambda: site.health("one"), "the agent is ready", SETTLED)
            print(f"  an agent is ready after {time.monotonic() - began:.1f} s")
            found = site.inside("one", "ip", "route", "show", "proto", "107").splitlines()
            assert sum("10.233." in line for line in found) >= NODES - 1, found
            new, path = node("new", "10.1.0.250", "10.233.250.0/24"), "/api/v1/nodes"
            del new["metadata"]["creationTimestamp"]
            taken: dict[str, list[float]] = {"Node": [], "policy": []}
            for number in range(rounds):
                taken["Node"].append(effect(site, routes, "10.233.250.0/24", lambda: within(
                    router, lambda: api.call("POST", path, new))))  # fmt: skip
                within(router, lambda: api.call("DELETE", f"{path}/new"))
                one = policy(number, "pod-0")
                one["spec"]["podSelector"] = {"matchLabels": {"app": "pod-0"}}
                block = one["spec"]["ingress"][0]["from"][0]["ipBlock"]["cidr"].partition("/")[0]
                taken["policy"].append(effect(site, tables, block, lambda one=one: within(
                    router, lambda: api.call("POST", policies, one))))  # fmt: skip
            for what, times in taken.items():
                print(
                    f"  from a new {what} to what the kernel has: "
                    f"{statistics.median(times):.3f} s, {max(times):.3f} s at most"
                )
            return memory(pid)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    from site_ import MACHINE, Site
    from waiting import until

    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = pathlib.Path(scratch)
        site = Site(folder)
        try:
            for machine in MACHINE:
                site.join(machine)
            for machine in MACHINE:
                until(lambda machine=machine: site.health(machine), f"{machine} is ready", SETTLED)
            print(f"cables of {RATE}, medians of {options.rounds} rounds")
            with limited(site, RATE):
                found = paths(site, options.rounds, options.seconds)
            print("cables without a limit")
            paths(site, options.rounds, options.seconds)
            print("there and back")
            latency(site, options.rounds)
            print("a new connection")
            flat = connections(site, options.rounds)
            for machine in MACHINE:
                site.kill(machine)
            print("an agent")
            needed = objects(site, folder, options.rounds)
        finally:
            site.close()
    met = [
        at_least("direct, pods / hosts", statistics.median(found["direct"]), DIRECT),
        at_most("1000 policies / none", flat, FLAT),
        at_most("MiB of an agent", needed, MEMORY),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
