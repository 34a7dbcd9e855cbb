"""A Service of type LoadBalancer of a fleet, and who asks it from outside of the cluster."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Self

from tests.testbed.fleet import Fleet
from tests.testbed.machine import KUBECTL, Machine, placed
from tests.testbed.pods import run_pod

NAME = "outside"
PAUSE = 0.1  # seconds between two questions
PATIENCE = 1  # seconds for an answer
FIRST = 10  # of the network's addresses, from its end: the engine gives the first ones away


class Asker:
    """Asks an address again and again, each time on a new connection.

    :ivar longest: seconds between two answers.
    """

    def __init__(self, address: str) -> None:
        self.address, self.answers, self.longest = address, 0, 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        last = 0.0  # until there is an answer, nobody was there to be away
        while not self._stop.wait(PAUSE):
            if not self._is_answered():
                continue
            now = time.monotonic()
            self.longest = max(self.longest, now - last) if last else 0.0
            last, self.answers = now, self.answers + 1

    def _is_answered(self) -> bool:
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def goes_on(self, seconds: float, answers: int = 10) -> bool:
        """Tell whether there are so many more answers in some time."""
        reached, until = self.answers, time.monotonic() + seconds
        while self.answers < reached + answers and time.monotonic() < until:
            time.sleep(PAUSE)
        return self.answers >= reached + answers


@contextlib.contextmanager
def announced(fleet: Fleet, by: str, witness: Machine, pods: Sequence[str]) -> Iterator[str]:
    """Let a machine have the address of a Service; give the address.

    :param by: the machine's name.
    :param witness: a master that lives on, by which all of it is taken away.
    :param pods: names of other machines, each with a pod of the Service.
    """
    machine = {"bootstrap": fleet.first, **fleet.others}[by]
    address = _preferring(fleet, by)
    spec = {"type": "LoadBalancer", "selector": {"app": NAME},
            "ports": [{"port": 80, "targetPort": 8080}]}  # fmt: skip
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME}, "spec": spec}
    pool = {"apiVersion": "metalk8s.scality.com/v1alpha1", "kind": "LoadBalancerPool",
            "metadata": {"name": NAME}, "spec": {"addresses": [address]}}  # fmt: skip
    try:
        for name in pods:
            run_pod(fleet, f"{NAME}-{name}", name, app=NAME)
        for manifest in (pool, service):
            fleet.first.kubectl("apply -f -", json.dumps(manifest))
        machine.wait(f"ip -oneline -4 address | grep 'inet {address}/32 '", 30)
        yield address
    finally:
        gone = [f"service/{NAME}", f"loadbalancerpool/{NAME}",
                *(f"pod/{NAME}-{name}" for name in pods)]  # fmt: skip
        delete = f"{KUBECTL} delete --ignore-not-found --wait=false {' '.join(gone)}"
        witness.wait(f"{delete} && echo gone", 30)


def _preferring(fleet: Fleet, name: str) -> str:
    """Return a free address of the workload plane whose first machine is the one of a name.

    The order is that of ``operators/load_balancer/metalk8s_load_balancer/placement.py``.
    """
    names = ["bootstrap", *fleet.others]
    _, plane = placed(fleet.first.name, fleet.workload)
    for number in range(FIRST, plane.num_addresses // 2):
        address = str(plane[-number])
        ranks = {one: hashlib.sha256(f"{address} {one}".encode()).digest() for one in names}
        if min(ranks, key=lambda one: ranks[one]) == name:
            return address
    raise AssertionError(f"no address of {plane} is first on {name}")
