from __future__ import annotations

import io
import json
import urllib.error
import urllib.request

import pytest
from metalk8s_operators.backoff import Backoff
from metalk8s_operators.report import Health, say, serve


def ask(server, path):
    url = f"http://127.0.0.1:{server.server_port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def health():
    return Health(patience=60)


def test_answers(health):
    server = serve(health, 0)
    try:
        assert ask(server, "/healthz") == (200, "ok\n")
        assert ask(server, "/readyz") == (503, "it has just begun\n")
        health.beat("", {"b_total": 2, "a": 0.5})
        assert ask(server, "/readyz") == (200, "ok\n")
        assert ask(server, "/metrics") == (200, "a 0.5\nb_total 2\n")
        health.beat("no route", {})
        assert ask(server, "/readyz") == (503, "no route\n")
        assert ask(server, "/other")[0] == 404
    finally:
        server.shutdown()
        server.server_close()


def test_who_is_silent_is_stuck():
    assert Health(patience=0).answer("/healthz")[0] == 503


def test_a_line_is_json():
    stream = io.StringIO()
    say("warning", "as\nit is", stream, node="a", count=2)
    line = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "warning", "message": "as\nit is", "node": "a", "count": 2}


def test_pauses_double_up_to_the_last():
    backoff = Backoff(1, 8)
    spans = [1, 2, 4, 8, 8]
    for span in spans:
        assert span / 2 <= backoff.pause() <= span
    backoff.reset()
    assert backoff.pause() <= 1
