import threading
import time

import pytest

from buildchain.core import reference
from buildchain.core.errors import ContentError
from buildchain.store import jobs as jobs_module
from buildchain.store.failure import TransferError
from buildchain.store.jobs import Job, Jobs
from buildchain.store.registry import Endpoint

PAUSES = jobs_module.FIRST


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(jobs_module, "FIRST", 0.001)


def place(host: str) -> Endpoint:
    return Endpoint(f"http://{host}", reference.parse(f"{host}/a"))


HERE, THERE = place("here.example"), place("there.example")


def fail(*, passing: bool, reason: str = "no", **more):
    raise TransferError(reason, passing=passing, **more)


def test_once_each_and_the_largest_first():
    done = []
    jobs = Jobs()
    gate = threading.Lock()

    def note(name):
        def action(_endpoint):
            with gate:
                done.append(name)

        return action

    # as many as run at a time are taken before the first ends; so the order is of those queued
    for size, name in [(1, "small"), (3, "large"), (2, "middle"), (3, "large")]:
        jobs.add(Job(name, note(name), [HERE], size))
    assert [job.key for job in jobs._pending] == ["large", "middle", "small"]
    assert jobs.run() == {}
    assert sorted(done) == ["large", "middle", "small"]


def test_a_job_may_add_jobs():
    done = []
    jobs = Jobs()

    def child(_endpoint):
        done.append("child")

    def parent(_endpoint):
        done.append("parent")
        jobs.add(Job("child", child, [HERE]))

    jobs.add(Job("parent", parent, [HERE]))
    assert jobs.run() == {}
    assert done == ["parent", "child"]


@pytest.mark.parametrize(
    ("busy", "least", "allowed"),
    [(float("inf"), 5, 8), (-1.0, 1, 4)],
    ids=["we wait for the network", "we wait for our processors"],
)
def test_no_more_at_once_than_the_gate_allows(monkeypatch, busy, least, allowed):
    monkeypatch.setattr(jobs_module, "BUSY", busy)
    active, most = 0, 0
    guard = threading.Lock()

    def action(_endpoint):
        nonlocal active, most
        with guard:
            active += 1
            most = max(most, active)
        time.sleep(0.005)
        with guard:
            active -= 1

    jobs = Jobs()
    for number in range(40):
        jobs.add(Job(str(number), action, [HERE]))
    jobs.run()
    assert least <= most <= allowed


def test_tried_again_until_it_works():
    tries = []

    def action(endpoint):
        tries.append(endpoint)
        if len(tries) < 5:
            fail(passing=True)

    jobs = Jobs()
    jobs.add(Job("a", action, [HERE]))
    assert jobs.run() == {}
    assert len(tries) == 5


def test_given_up_in_the_end_with_every_reason():
    tries = []

    def action(endpoint):
        tries.append(endpoint)
        fail(passing=endpoint is HERE, reason=f"{endpoint.host} is sad")

    jobs = Jobs()
    jobs.add(Job("a", action, [HERE, THERE], attempts=3))
    (error,) = jobs.run().values()
    assert tries == [HERE, THERE, HERE, HERE]
    assert error.reason == "here.example is sad (3 times); there.example is sad"


def test_elsewhere_at_once():
    def action(endpoint):
        if endpoint is HERE:
            fail(passing=True, crowded=True, after=200)

    begun = time.monotonic()
    jobs = Jobs()
    jobs.add(Job("a", action, [HERE, THERE]))
    assert jobs.run() == {}
    assert time.monotonic() - begun < 5


def test_retry_after_is_kept_for_the_whole_host():
    moments = []

    def action(_endpoint):
        moments.append(time.monotonic())
        if len(moments) == 1:
            fail(passing=True, crowded=True, after=0.3)

    jobs = Jobs()
    jobs.add(Job("a", action, [HERE]))
    jobs.run()
    assert moments[1] - moments[0] >= 0.3


def test_getting_on_counts_as_no_failure():
    offset, tries = 0, 0

    def action(_endpoint):
        nonlocal offset, tries
        tries += 1
        if tries < 30:
            offset += 1 << 20
            fail(passing=True)

    jobs = Jobs()
    jobs.add(Job("a", action, [HERE], offset=lambda: offset))
    assert jobs.run() == {}
    assert tries == 30


def test_what_is_wrong_for_good_does_not_stop_the_others():
    done = []

    def wrong(_endpoint):
        raise ContentError("wrong")

    jobs = Jobs()
    jobs.add(Job("wrong", wrong, [HERE], 9))
    for number in range(9):
        jobs.add(Job(str(number), done.append, [HERE]))
    (error,) = jobs.run().values()
    assert isinstance(error, ContentError)
    assert len(done) == 9


def test_a_bug_or_a_full_disk_ends_everything():
    def action(_endpoint):
        raise OSError(28, "No space left on device")

    jobs = Jobs()
    for number in range(50):
        jobs.add(Job(str(number), action, [HERE]))
    with pytest.raises(OSError, match="No space left"):
        jobs.run()
    assert jobs.stopped()


def test_interrupted_in_order():
    def action(_endpoint):
        while not jobs.stopped():
            time.sleep(0.001)
        fail(passing=False, reason="interrupted")

    def interrupt(_bytes):
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    jobs = Jobs(interrupt)
    jobs.add(Job("a", action, [HERE]))
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        jobs.run()
    assert time.monotonic() - begun < 4
    assert set(threading.enumerate()) <= before


def test_nothing_to_do():
    assert Jobs().run() == {}


def test_pause_grows_to_a_limit_and_is_partly_chance(monkeypatch):
    monkeypatch.setattr(jobs_module, "FIRST", PAUSES)
    for failures, longest in [(1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (50, 30.0)]:
        found = {jobs_module.pause(failures) for _ in range(20)}
        assert len(found) > 1
        assert all(longest / 2 <= seconds <= longest for seconds in found)
    assert jobs_module.pause(1, after=9.0) == 9.0
