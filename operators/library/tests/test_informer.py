"""A copy of a collection survives whatever the API server does."""

from __future__ import annotations

import pytest
from api_server import Fault
from waiting import until


def thing(name, color="red"):
    return {"kind": "Node", "metadata": {"name": name}, "color": color}


def test_pages_then_changes(api, inform):
    for number in range(120):
        api.put(thing(f"n{number:03}"))
    informer, said, changes = inform()
    until(lambda: len(informer.copy() or {}) == 120, "the list")
    assert [query.get("continue") for query in api.lists()] == [None, "50", "100"]
    assert len(changes) == 1, "a page of a list was shown"
    api.put(thing("n000", "blue"))
    until(lambda: informer.copy()["n000"] == "blue", "the change")
    api.put(thing("new"))
    until(lambda: "new" in informer.copy(), "the new one")
    api.remove("n001")
    until(lambda: "n001" not in informer.copy(), "the removal")
    assert (said, len(changes), len(api.lists())) == ([], 4, 3)


def test_a_change_of_what_is_not_kept_is_none(api, inform):
    api.put(thing("a"))
    informer, _, changes = inform()
    until(informer.copy, "the list")
    api.put({**thing("a"), "heartbeat": 1})
    api.put(thing("b", "blue"))
    until(lambda: "b" in informer.copy(), "the next")
    assert len(changes) == 2


def test_what_is_not_to_be_kept_goes(api, inform):
    api.put(thing("a"))
    informer, _, _ = inform()
    until(informer.copy, "the list")
    api.put(thing("a", None))
    until(lambda: not informer.copy(), "gone")


@pytest.mark.parametrize(
    ("faults", "listed"),
    [
        pytest.param([Fault(True, 0)], 1, id="cut in a line"),
        pytest.param([Fault(True, 500)] * 3, 1, id="500 for watches"),
        pytest.param([Fault(True, 410)], 2, id="410 for a watch"),
        pytest.param([Fault(False, 0)], 2, id="list cut"),
        pytest.param([Fault(False, 410), Fault(False, 503)], 3, id="410 and 503 for lists"),
        pytest.param([Fault(False, 401), Fault(True, 401)], 2, id="401: the token was old"),
    ],
)
def test_faults(api, inform, faults, listed):
    api.put(thing("a"))
    api.faults += faults
    informer, said, _ = inform()
    until(lambda: informer.copy() == {"a": "red"} and not api.faults, "the copy")
    api.put(thing("b"))
    until(lambda: "b" in informer.copy(), "a change after the faults")
    assert len(said) == informer.errors == len(faults)
    assert len(api.lists()) == listed


def test_a_cut_watch_goes_on_where_it_was(api, inform):
    api.put(thing("a"))
    informer, _, changes = inform()
    until(informer.copy, "the list")
    until(api.watches, "the watch")
    api.put(thing("b"))
    until(lambda: "b" in informer.copy(), "b")
    api.cut()
    api.remove("a")
    until(lambda: informer.copy() == {"b": "red"}, "what happened meanwhile")
    assert len(api.lists()) == 1
    assert api.watches()[1]["resourceVersion"] == "102"
    assert len(changes) == 3


def test_a_bookmark_moves_where_it_begins(api, inform):
    api.put(thing("a"))
    informer, _, _ = inform()
    until(api.watches, "the watch")
    api.bookmark()
    api.put(thing("b"))
    until(lambda: "b" in informer.copy(), "b")
    api.bookmark()
    api.forgotten = api.version  # all but the bookmark's
    count = len(api.watches())
    until(lambda: informer._version == str(api.version), "the bookmark was read")
    api.cut()
    until(lambda: len(api.watches()) > count, "the next watch")
    assert api.watches()[-1]["resourceVersion"] == str(api.version)
    assert len(api.lists()) == 1


def test_410_in_the_stream_lists_anew(api, inform):
    api.put(thing("a"))
    informer, _, _ = inform()
    until(api.watches, "the watch")
    api.remove("a")
    api.put(thing("b"))
    api.forget()
    until(lambda: informer.copy() == {"b": "red"}, "the copy")
    assert len(api.lists()) == 2


def test_429_waits_as_told(api, inform):
    api.put(thing("a"))
    api.faults.append(Fault(False, 429, {"Retry-After": "1"}))
    informer, said, _ = inform()
    until(lambda: said, "the refusal")
    assert informer.copy() is None
    until(informer.copy, "the copy")
    assert "429" in said[0]


def test_what_was_known_stays_without_an_api_server(api, inform):
    api.put(thing("a"))
    informer, said, _ = inform()
    until(api.watches, "the watch")
    api.close()
    until(lambda: len(said) > 3, "it tries again")
    assert informer.copy() == {"a": "red"}


def test_resync_finds_what_no_watch_told(api, inform):
    api.put(thing("a"))
    informer, _, _ = inform(watch=1.0, resync=0.1)
    until(informer.copy, "the list")
    api.objects["silent"] = thing("silent")
    until(lambda: "silent" in informer.copy(), "the resync")


def test_the_token_is_read_at_every_request(api, inform, tmp_path):
    (tmp_path / "token").write_text("one\n")
    api.put(thing("a"))
    inform()
    until(api.watches, "the watch")
    (tmp_path / "token").write_text("two\n")
    api.cut()
    until(lambda: len(api.watches()) > 1, "the next watch")
    tokens = [query["Authorization"] for query in api.requests]
    assert tokens[0] == "Bearer one"
    assert tokens[-1] == "Bearer two"
