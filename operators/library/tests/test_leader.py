"""One leads, whoever dies; with the API server that the ISO has."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from control_plane import ControlPlane, lacking
from metalk8s_operators.client import ApiError, Client
from metalk8s_operators.leader import Election, Terms
from needed import need
from waiting import PATIENCE, until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
# The Lease of a test is short; so are its pauses.
TERMS = Terms(lease=3.0, deadline=1.5, retry=0.2)


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    need(lacking())
    made = ControlPlane(tmp_path_factory.mktemp("plane"))

    def has_namespace():
        with contextlib.suppress(ApiError):
            return made.client().get("/api/v1/namespaces/kube-system", {})

    until(has_namespace, "the namespace")
    yield made
    made.close()


class Copy:
    """A copy of a program, with its own thread, that can go away with or without a word."""

    def __init__(self, plane, lease, name):
        self.client = plane.client()
        self.changes, self.said = [], []
        self._stop = threading.Event()
        self.election = Election(
            *(self.client, LEASES, lease, name, lambda: self.changes.append(self.leads())),
            *(self.said.append,),
            terms=TERMS,
        )
        self._thread = threading.Thread(target=self.election.run, args=(self._stop,), daemon=True)
        self._thread.start()

    def leads(self):
        return self.election.leads()

    def cut(self):
        """Let it reach nobody any more."""
        self.election._client = Client("http://127.0.0.1:9")

    def end(self):
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.fixture
def copies(plane, request):
    made = []

    def make(name):
        made.append(Copy(plane, request.node.name.replace("_", "-"), name))
        return made[-1]

    yield make
    for one in made:
        one.end()


def leading(copies):
    return [one for one in copies if one.leads()]


def test_one_of_three_leads(plane, copies, request):
    three = [copies(name) for name in "abc"]
    until(lambda: leading(three), "a leader")
    [leader] = leading(three)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        assert leading(three) == [leader]
        time.sleep(0.02)
    spec = plane.client().get(f"{LEASES}/{request.node.name.replace('_', '-')}", {})["spec"]
    assert (spec["leaseTransitions"], spec["leaseDurationSeconds"]) == (1, 3)
    assert leader.changes == [True]


def test_who_ends_gives_it_back(copies):
    one = copies("one")
    until(one.leads, "the first")
    other = copies("other")
    began = time.monotonic()
    one.end()
    assert not one.leads()
    until(other.leads, "the other")
    assert time.monotonic() - began < 2, "it waited for the Lease to end"
    assert (one.changes, other.changes) == ([True, False], [True])


def test_who_is_cut_off_stops_before_another_begins(copies):
    one = copies("one")
    until(one.leads, "the first")
    other = copies("other")
    one.cut()
    while not other.leads():
        last = time.monotonic() if one.leads() else None
        time.sleep(0.01)
    assert not one.leads()
    assert last is None
    assert one.changes == [True, False]
    assert one.said


def test_while_the_api_server_is_away_nobody_leads(plane, copies):
    two = [copies(name) for name in "ab"]
    until(lambda: leading(two), "a leader")
    plane.stop("api")
    until(lambda: not leading(two), "nobody")
    plane.start_api()
    until(lambda: leading(two), "a leader again")


def test_what_is_written_is_what_it_is_then(plane):
    client = plane.client()
    maps = "/api/v1/namespaces/kube-system/configmaps"
    made = client.write("POST", maps, {"metadata": {"name": "a"}, "data": {"b": "1"}})
    changed = client.write("PATCH", f"{maps}/a", {"data": {"b": None, "c": "2"}})
    assert changed["data"] == {"c": "2"}
    with pytest.raises(ApiError, match="409") as refused:
        client.write("PUT", f"{maps}/a", made)
    assert refused.value.status == 409
    assert f"{maps}/a" in str(refused.value)
