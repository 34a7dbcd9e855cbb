"""How soon names of the cluster are there, and how many questions a second are answered.

Usage: ``python -m tests.bench.dns [--names 15000] [--rounds 30] [--seconds 5]``. One Knot, one
Unbound and one watcher, as in a pod of ``kube-dns``, beside an API server of the test; ``dnsperf``
asks, with one thread, for names of pods in a fixed order that repeats itself.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from tests.bench.verdict import at_least, at_most, seconds

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [
    str(ROOT / "operators" / folder) for folder in ("dns", "dns/tests", "library", "library/tests")
]

LOAD, CHANGE = 1.0, 0.1  # seconds
# A second, of one CoreDNS that fills both processors of its machine, for names of the cluster:
# https://github.com/coredns/deployment/blob/master/kubernetes/Scaling_CoreDNS.md
COREDNS = 33_669
SHARE = 0.8  # of that, at least, by one thread of ours
SETTLED = 60.0  # seconds until all names are there, at most


@contextlib.contextmanager
def answering(names: int) -> Iterator[tuple[Any, Any, float]]:
    """Start everything; give it, the API server, and the seconds that the names took."""
    from bed import Api, Bed
    from things import pod

    with tempfile.TemporaryDirectory() as folder:
        bed, api = Bed(pathlib.Path(folder)), Api()
        try:
            for number in range(names):
                api.pods.objects[f"p{number}"] = pod(f"p{number}", address(number))
            bed.start_knot()
            bed.start_unbound()
            bed.start_program(api.url)
            wait(bed.settings.health_port)
            [told] = re.findall(r'"seconds": ([0-9.]+)', bed.log("program"))[:1]
            yield bed, api, float(told)
        finally:
            bed.close()
            api.close()


def address(number: int) -> str:
    return f"10.233.{number // 250}.{number % 250}"


def wait(port: int) -> None:
    until = time.monotonic() + SETTLED
    while time.monotonic() < until:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2),
        ):
            return
        time.sleep(0.05)
    raise TimeoutError(f"the names are not there after {SETTLED:.0f} s")


def change(bed: Any, api: Any, number: int) -> float:
    """Return the seconds from a new Service to its address."""
    from question import ask
    from things import service

    name = f"new{number}.default.svc.cluster.local."
    assert ask(bed.port, name).code == "NXDOMAIN"

    def seen() -> None:
        api.services.put(service(f"new{number}", "10.96.200.1"))
        while not ask(bed.port, name).data:
            pass

    return seconds(seen)


def questions(port: int, names: int, length: int) -> float:
    """Return how many questions a second are answered."""
    with tempfile.NamedTemporaryFile("w") as asked:
        for number in range(names):
            dashed = address(number * 7919 % names).replace(".", "-")
            asked.write(f"{dashed}.default.pod.cluster.local. A\n")
        asked.flush()
        words = ["dnsperf", "-s", "127.0.0.1", "-p", str(port), "-d", asked.name, "-T", "1"]
        done = subprocess.run(
            [*words, "-c", "4", "-l", str(length)], capture_output=True, text=True, check=True
        )
    assert re.search(r"Response codes: +NOERROR \d+ \(100\.00%\)", done.stdout), done.stdout
    [count] = re.findall(r"Queries per second: +([0-9.]+)", done.stdout)
    return float(count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=15_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args()
    with answering(options.names) as (bed, api, load):
        taken = [change(bed, api, number) for number in range(options.rounds)]
        rate = questions(bed.port, options.names, options.seconds)
        straight = questions(bed.settings.authority_port, options.names, options.seconds)
        print(f"{options.names} names; MiB at most: " + ", ".join(
            f"{name} {bed.memory(name):.0f}" for name in ("program", "knotd", "unbound")
        ))  # fmt: skip
    print(f"a change is seen after {statistics.median(taken):.3f} s, {max(taken):.3f} s at most")
    print(f"{rate:.0f} questions a second, {straight:.0f} of Knot itself")
    met = [
        at_most("seconds from objects to all names", load, LOAD),
        at_most("seconds from a change to its answer", statistics.median(taken), CHANGE),
        at_least("of the rate that CoreDNS publishes", rate / COREDNS, SHARE),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
