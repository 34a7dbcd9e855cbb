"""Secrets are read one by one, and none of them is why others are not."""

from __future__ import annotations

import threading

from metalk8s_ingress.model import Unusable
from metalk8s_ingress.secrets import Secrets
from things import secret
from waiting import until


class Client:
    def __init__(self, items):
        self.items = items

    def get(self, path, _query):
        return self.items[path.rpartition("/")[2]]


def test_a_folder_that_takes_nothing_is_told_and_tried_again(pairs, tmp_path):
    """It is full for a moment: who reads Secrets goes on, and the certificate comes."""
    folder, said = tmp_path / "memory", []
    items = {"one": secret("one", pairs("a.example")), "bad": {"type": "Opaque"}}
    secrets = Secrets(Client(items), folder, 0.05, lambda: None, said.append)
    secrets.want(frozenset({"shop/one", "shop/bad"}))
    stop = threading.Event()
    thread = threading.Thread(target=secrets.run, args=(stop,))
    thread.start()
    try:
        until(lambda: len(said) > 1, "a second look")
        assert "Secret shop/one could not be checked" in said[0]
        held = secrets.copy()
        assert held["shop/one"] == Unusable("it could not be checked: No such file or directory")
        assert "expected kubernetes.io/tls" in held["shop/bad"].reason
        assert secrets.is_complete(frozenset({"shop/one", "shop/bad"})), "it holds up nobody"
        folder.mkdir()
        until(lambda: isinstance(secrets.copy()["shop/one"], str), "the certificate")
        folder.rmdir()
        before = len(said)
        until(lambda: len(said) > before + 1, "a look that fails")
        assert isinstance(secrets.copy()["shop/one"], str), "the one before holds"
    finally:
        stop.set()
        secrets.want(frozenset(), anew=True)
        thread.join(30)
    assert not thread.is_alive()
