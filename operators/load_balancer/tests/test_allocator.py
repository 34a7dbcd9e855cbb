"""One object that the API server refuses keeps nobody else from an address, or from a word."""

from __future__ import annotations

import threading
from ipaddress import IPv4Address

import pytest
import things
from metalk8s_load_balancer import allocator, objects, pools
from metalk8s_load_balancer.allocation import Reserved
from metalk8s_load_balancer.allocator import Allocator
from metalk8s_operators.client import ApiError
from metalk8s_operators.report import Health


class Api:
    """What the API server tells, and what is written to it.

    :param refused: status by what the path or the body has in it.
    """

    errors = 0

    def __init__(self, items, *known, machines=(), **refused):
        self.items = {one["metadata"]["name"]: one for one in items}
        self.known = [pools.pool(one) for one in known]
        self.nodes = {"n": frozenset(map(IPv4Address, machines))}
        self.refused = refused
        self.tries: list[str] = []
        self.events: list[tuple[str, str]] = []

    def services(self):
        return {f"default/{name}": objects.service(one) for name, one in self.items.items()}

    def pools(self):
        return {one.name: one for one in self.known}

    def machines(self):
        return self.nodes

    def write(self, method, path, body, content=""):
        is_event = "/events" in path
        name = body["involvedObject"]["name"] if is_event else path.split("/")[-2]
        self.tries.append(f"{'event' if is_event else 'status'}_{name}")
        status = self.refused.get(self.tries[-1])
        if status is not None:
            raise ApiError(status, f"{self.tries[-1]} is refused")
        if is_event:
            self.events.append((name, body["reason"]))
            return body
        item = self.items[name]
        metadata = item["metadata"]
        metadata["resourceVersion"] += "1"
        notes = {**metadata["annotations"], **body["metadata"]["annotations"]}
        metadata["annotations"] = {key: value for key, value in notes.items() if value}
        item["status"] = body["status"]
        return item


def started(api):
    health = Health()
    made = Allocator(api, api, lambda: True, Reserved(), health, threading.Event())
    return made, health


def is_ready(health):
    return health.answer("/readyz")[0] == 200


@pytest.mark.parametrize("status", [403, 422, 429, 500])
def test_a_word_that_is_refused_silences_no_other(status, monkeypatch):
    api = Api([things.service(name, asks="no address") for name in "abc"], event_a=status)
    made, health = started(api)
    assert not made.compare(), "it is to be tried again"
    assert api.events == [("b", "BadAddress"), ("c", "BadAddress")]
    assert is_ready(health)
    # neither what was said nor what was refused, at once
    api.tries.clear()
    assert not made.compare()
    assert not api.tries
    monkeypatch.setattr(allocator.time, "monotonic", lambda: 1e9)
    api.refused.clear()
    assert made.compare()
    assert api.tries == ["event_a"]
    assert made.compare()
    assert api.tries == ["event_a"]


def test_that_a_service_got_its_address_is_said_later(monkeypatch):
    api = Api([things.service("a")], things.pool("p", "10.0.0.1"), event_a=403)
    made, _ = started(api)
    assert not made.compare()
    monkeypatch.setattr(allocator.time, "monotonic", lambda: 1e9)
    api.refused.clear()
    assert made.compare()
    assert api.events == [("a", "AddressAssigned")]


def test_when_nobody_answers_it_does_not_wait_for_each_word():
    api = Api([things.service(name, asks="no address") for name in "abc"], event_a=0)
    made, _ = started(api)
    assert not made.compare()
    assert api.tries == ["event_a"]


def test_a_status_that_is_refused_keeps_no_other_from_its_address():
    """Annotations that somebody has filled to the limit take none of ours."""
    api = Api(
        [things.service(name, number) for number, name in enumerate("abc")],
        things.pool("p", "10.0.0.1-10.0.0.3"),
        status_a=422,
    )
    made, health = started(api)
    assert not made.compare()
    assert {name: one.given for name, one in api.services().items() if one.given} == {
        "default/b": objects.Given(IPv4Address("10.0.0.2"), "p", 2),
        "default/c": objects.Given(IPv4Address("10.0.0.3"), "p", 3),
    }
    assert ("a", "StatusRefused") in api.events
    assert is_ready(health)


@pytest.mark.parametrize("status", [0, 403, 500])
def test_an_api_server_that_takes_no_status_is_said_by_readiness(status):
    api = Api([things.service("a")], things.pool("p", "10.0.0.1"), status_a=status)
    made, health = started(api)
    assert not made.compare()
    assert not is_ready(health)


def test_what_nodes_claim_moves_nobody():
    api = Api([things.service("a")], things.pool("p", "10.0.0.1-10.0.0.2"))
    made, _ = started(api)
    assert made.compare()
    api.nodes = {"n": frozenset([IPv4Address("10.0.0.1")])}
    assert made.compare()
    assert str(api.services()["default/a"].given.address) == "10.0.0.1"


def test_annotations_of_an_older_service_move_no_other():
    items = [things.service("thief", 1), things.service("victim", 2)]
    api = Api(items, things.pool("p", "10.0.0.1-10.0.0.2"))
    made, _ = started(api)
    assert made.compare()
    before = api.services()
    metadata = api.items["thief"]["metadata"]
    metadata["annotations"][objects.ROUTER] = "2"
    metadata["resourceVersion"] += "1"
    api.tries.clear()
    assert made.compare()
    assert [one for one in api.tries if one.startswith("status")] == ["status_thief"]
    assert {key: one.given for key, one in api.services().items()} == {
        key: one.given for key, one in before.items()
    }
