"""Whom ``ctr`` asks."""

from __future__ import annotations

import pathlib

import pytest

from .loader import load


@pytest.mark.parametrize(
    ("configuration", "socket"),
    [
        (None, "/run/containerd/containerd.sock"),
        ("version = 2\n", "/run/containerd/containerd.sock"),
        ('[grpc]\naddress = ""\n', "/run/containerd/containerd.sock"),
        ('[grpc]\naddress = "/run/site/engine.sock"\n', "/run/site/engine.sock"),
    ],
)
def test_socket(tmp_path: pathlib.Path, configuration: str | None, socket: str) -> None:
    """The engine's own configuration says where it listens."""
    engine = load("_modules/metalk8s_engine")
    engine.CONFIGURATION = tmp_path / "config.toml"
    if configuration is not None:
        engine.CONFIGURATION.write_text(configuration)
    assert engine.command() == ["ctr", "--address", socket, "--namespace", "k8s.io"]
