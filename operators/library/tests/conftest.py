from __future__ import annotations

import threading

import pytest
from api_server import ApiServer
from metalk8s_operators.backoff import Backoff
from metalk8s_operators.client import Client
from metalk8s_operators.informer import Informer, Rhythm
from waiting import PATIENCE


@pytest.fixture
def api():
    server = ApiServer()
    yield server
    server.close()


@pytest.fixture
def inform(api, tmp_path):
    """Start an informer that keeps the color of things; give it and what it said."""
    stop, threads = threading.Event(), []

    def start(**rhythm):
        said, changes = [], []
        informer = Informer(
            Client(api.url, tmp_path),
            "/api/v1/nodes",
            lambda item: item.get("color"),
            lambda: changes.append(1),
            said.append,
            rhythm=Rhythm(**rhythm) if rhythm else None,
            backoff=Backoff(0.02, 0.1),
        )
        thread = threading.Thread(target=informer.run, args=(stop,), daemon=True)
        thread.start()
        threads.append(thread)
        return informer, said, changes

    yield start
    stop.set()
    api.close()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
