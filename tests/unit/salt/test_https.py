"""Servers of the node, as their users see them."""

from __future__ import annotations

import socket

from .loader import load


def test_server_that_is_not_there() -> None:
    """The URL, how long, and why."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    state = load("_states/metalk8s_https")
    answer = state.answers(f"https://127.0.0.1:{port}/v2/", authority=__file__, timeout=-1)
    assert answer["result"] is False
    assert f"https://127.0.0.1:{port}/v2/ does not answer after -1 s" in answer["comment"]


def test_test_mode_does_not_wait() -> None:
    """Nothing may be there yet."""
    state = load("_states/metalk8s_https", opts={"test": True})
    assert state.answers("https://127.0.0.1:1/", authority="/nonexistent")["result"] is True
