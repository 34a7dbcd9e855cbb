"""``BASE_IMAGE``: images on a base from a registry, pinned by digest."""

from __future__ import annotations

import json
import pathlib
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.integration.checkout import Checkout
from tests.integration.conftest import require, run

pytestmark = pytest.mark.integration


@pytest.fixture
def local_registry(tmp_path: pathlib.Path) -> Iterator[str]:
    """Run Debian's registry on loopback, which every engine trusts without TLS."""
    require("docker-registry", "skopeo")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = tmp_path / "registry.yml"
    settings.write_text(
        "version: 0.1\nlog: {level: error}\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path}/registry}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n",
        encoding="utf-8",
    )
    server = subprocess.Popen(
        ["docker-registry", "serve", str(settings)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def test_images_stand_on_a_base_from_a_registry(
    checkout: Checkout, local_registry: str, base_image: str
) -> None:
    place = f"docker://{local_registry}/debian:12"
    run(
        *("skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"),
        *("--format", "v2s2", f"docker-daemon:{base_image}", place),
    )
    digest = json.loads(run("skopeo", "inspect", "--tls-verify=false", place))["Digest"]
    reference = f"{local_registry}/debian@{digest}"
    try:
        said = checkout.succeeds("_image_build:nginx", BASE_IMAGE=reference)
        assert f"PULL IMAGE     {reference}" in said
        tree = checkout.folder / "_build/images/nginx/1.22.1"
        config = json.loads((tree / "manifest.json").read_bytes())["config"]["digest"]
        details = json.loads((tree / config.removeprefix("sha256:")).read_bytes())
        base = json.loads(run("docker", "image", "inspect", reference))[0]
        assert details["rootfs"]["diff_ids"][:-1] == base["RootFS"]["Layers"]
        again = checkout.succeeds("_image_build:nginx", BASE_IMAGE=reference)
        assert not [line for line in again.splitlines() if line.startswith("..")]
    finally:
        run("docker", "image", "rm", "--force", reference)


def test_base_that_is_not_there(checkout: Checkout, local_registry: str) -> None:
    reference = f"{local_registry}/debian@sha256:{'0' * 64}"
    said = checkout.fails("_base_image", BASE_IMAGE=reference)
    assert "EngineError" in said
    assert "manifest unknown" in said
