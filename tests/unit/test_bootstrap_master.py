"""Whether the Salt master answers, asked before Salt is. Runs ``openssl``."""

import json
import socket
from pathlib import Path

import pytest
from metalk8s_bootstrap import master

from tests.unit import salt_master


@pytest.fixture(scope="module")
def certificates(tmp_path_factory, require):
    folder = tmp_path_factory.mktemp("certificates")
    return salt_master.certify(folder, require("openssl"), "master", "minion", "stranger")


@pytest.fixture(scope="module")
def port(certificates):
    with salt_master.serving(certificates) as number:
        yield number


def configured(folder, port, **changes):
    tls = {"certfile": "/minion.crt", "keyfile": "/minion.key", "ca_certs": "/master.crt"}
    document = {"master": "127.0.0.1", "master_port": port, "ssl": tls | changes}
    path = folder / "minion.conf"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("changes", "accepted"),
    [
        ({}, True),
        ({"ca_certs": "/stranger.crt"}, False),
        ({"certfile": "/stranger.crt", "keyfile": "/stranger.key"}, False),
        ({"keyfile": "/none.key"}, False),
        ({"keyfile": "/stranger.key"}, False),
    ],
)
def test_both_have_to_know_each_other(certificates, port, tmp_path, changes, accepted):
    path = configured(tmp_path, port, **changes)
    assert master.lets_in(path, lambda name: certificates / name[1:]) is accepted


@pytest.mark.parametrize("text", [None, "", "master: [", "master: 127.0.0.1\n", "- 1\n"])
def test_a_configuration_that_does_not_do(tmp_path, text):
    """It is not there, no YAML, or says too little."""
    path = tmp_path / "minion.conf"
    if text is not None:
        path.write_text(text)
    assert master.lets_in(path, Path) is False


def test_nobody_is_there(certificates, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    path = configured(tmp_path, port)
    assert master.lets_in(path, lambda name: certificates / name[1:]) is False
