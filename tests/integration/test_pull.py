"""Pulling from Debian's docker-registry: what arrives, what skopeo makes of it, kills."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from buildchain.core.errors import SigningError
from buildchain.core.layout import Layout
from buildchain.project import config
from buildchain.project.model import PulledImage
from buildchain.pulls import fetch
from buildchain.store.blobs import Store
from tests.integration.conftest import require, run
from tests.registries import faulty, image_set, killing, local

pytestmark = pytest.mark.integration
ROOT = pathlib.Path(__file__).parents[2]
KILLS = int(os.environ.get("METALK8S_KILLS", "6"))


@dataclasses.dataclass(frozen=True)
class Served:
    """A registry and what is in it: ``name:tag`` to digest."""

    address: str
    images: dict[str, str]

    @property
    def job(self) -> dict[str, object]:
        """What the process is told that is measured or killed."""
        images = {n: f"{self.address}/{n}@{digest}" for n, digest in self.images.items()}
        return {"plain": [self.address], "images": images}

    def pins(self, **more: object) -> list[PulledImage]:
        return [
            PulledImage(name.partition(":")[0], f"{self.address}/{name}", digest, **more)
            for name, digest in self.images.items()
        ]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    require("docker-registry")
    folder = tmp_path_factory.mktemp("registry")
    with local.serving(folder) as address:
        yield Served(address, local.fill(address, 1 / 10))


@pytest.fixture
def layout(tmp_path: pathlib.Path) -> Layout:
    return Layout(ROOT, tmp_path / "build", tmp_path / "cache", "demo")


def settings(served: Served, **more: str) -> config.Config:
    return config.load(ROOT, {"PLAIN_HTTP_REGISTRIES": served.address, **more})


def make(layout: Layout, served: Served, images: list[PulledImage]) -> None:
    facts = fetch.fetch(layout, images, settings(served)).facts
    for image in images:
        fetch.lay_out(layout, image, facts[image.name])


def test_every_image_arrives(served: Served, layout: Layout) -> None:
    """25 images that share layers; skopeo reads the trees, digests are those of the registry."""
    require("skopeo")
    make(layout, served, served.pins())
    assert len(served.images) >= 20
    for name, digest in served.images.items():
        folder = layout.image(*name.split(":"))
        assert run("skopeo", "manifest-digest", folder / "manifest.json").strip() == digest
        told = json.loads(run("skopeo", "inspect", "--raw", f"dir:{folder}"))
        for blob in [told["config"], *told["layers"]]:
            path = folder / blob["digest"].removeprefix("sha256:")
            assert path.stat().st_size == blob["size"]
            assert path.samefile(Store(layout.store).path(path.name))
    killing.check(Store(layout.store))
    last = layout.image(*next(iter(served.images)).split(":"))
    run("skopeo", "--insecure-policy", "copy", f"dir:{last}", f"dir:{layout.build / 'copy'}")


def test_an_index_is_read_by_skopeo(served: Served, layout: Layout) -> None:
    require("skopeo")
    pusher = local.Pusher(served.address)

    def put(name: str, tag: str, document: bytes, blobs: dict[str, bytes]) -> str:
        for digest, content in blobs.items():
            pusher.blob(name, digest, content)
        digest = image_set.digest(document)
        pusher.manifest(name, tag or digest, document)
        return digest

    digests = image_set.put_index(put, "org/multi", "amd64", "arm64", "s390x")
    pusher.close()
    pin = PulledImage(
        "org/multi", f"{served.address}/org/multi:1.0", digests[""], platforms=("all",)
    )
    make(layout, served, [pin])
    folder = layout.image("org/multi", "1.0")
    raw = run("skopeo", "inspect", "--raw", f"oci:{folder}:1.0")
    assert image_set.digest(raw.encode()) == digests[""]
    run("skopeo", "--insecure-policy", "copy", "--all", "--preserve-digests", f"oci:{folder}:1.0",
        f"dir:{layout.build / 'copy'}")  # fmt: skip
    copied = (layout.build / "copy" / "manifest.json").read_bytes()
    assert image_set.digest(copied) == digests[""]


def test_kills(served: Served, tmp_path: pathlib.Path) -> None:
    """``kill -9`` at random moments; then the same result as without."""
    job = {**served.job, "unit": 1 << 20}
    done = killing.kill_and_resume(job, tmp_path, kills=KILLS, seed=7, longest=0.6)
    assert done.kills == KILLS
    assert done.lost <= 1 << 20


@pytest.fixture
def signed(served: Served, tmp_path: pathlib.Path) -> dict[str, pathlib.Path]:
    """Sign one image with a key of our own; give its policy and where signatures are looked up."""
    require("gpg", "skopeo")
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    environment = {**os.environ, "GNUPGHOME": str(home), "HOME": str(tmp_path)}
    key = tmp_path / "key.gpg"
    run("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "signer@site", "rsa3072",
        env=environment)  # fmt: skip
    key.write_text(run("gpg", "--armor", "--export", "signer@site", env=environment))
    lookaside = tmp_path / "lookaside"
    registries = tmp_path / ".config" / "containers" / "registries.d"
    registries.mkdir(parents=True)
    place = f"file://{lookaside}"
    (registries / "site.yaml").write_text(
        f"docker:\n  {served.address}:\n    lookaside: {place}\n    lookaside-staging: {place}\n"
        f"    sigstore: {place}\n    sigstore-staging: {place}\n"
    )
    where = f"docker://{served.address}/static-1:1.0"
    run(
        "skopeo", "--insecure-policy", "copy", "--preserve-digests", "--src-tls-verify=false",
        "--dest-tls-verify=false", "--sign-by", "signer@site", where, where, env=environment,
    )  # fmt: skip
    run("gpgconf", "--kill", "all", env=environment)
    policy = tmp_path / "policy.json"
    demand = {"type": "signedBy", "keyType": "GPGKeys", "keyPath": str(key)}
    policy.write_text(json.dumps({
        "default": [{"type": "reject"}],
        "transports": {"docker": {served.address: [demand]}},
    }))  # fmt: skip
    return {"home": tmp_path, "policy": policy}


def test_a_signature_policy_is_kept(
    served: Served, layout: Layout, signed: dict[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(signed["home"]))
    by_name = {image.name: image for image in served.pins()}
    strict = settings(served, SIGNATURE_POLICY=str(signed["policy"]))
    fetch.fetch(layout, [by_name["static-1"]], strict)
    with pytest.raises(SigningError, match=r"does not allow 1 of 1 images: static-2: .*signature"):
        fetch.fetch(layout, [by_name["static-2"]], strict)


def test_a_policy_costs_no_layer(tmp_path: pathlib.Path, layout: Layout) -> None:
    """skopeo judges with what is in the store already, also for a whole index."""
    require("skopeo")
    policy = tmp_path / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    with faulty.serving() as registry:
        document, blobs = image_set.oci("app", "amd64")
        one = registry.add("app", "1.0", document, blobs)
        several = image_set.put_index(registry.add, "multi", "amd64", "arm64")[""]
        found = [
            PulledImage("app", f"{registry.address}/app:1.0", one),
            PulledImage("arm", f"{registry.address}/multi:1.0", several, "1", ("linux/arm64",)),
            PulledImage("all", f"{registry.address}/multi:1.0", several, "1", ("all",)),
        ]
        fetch.fetch(
            layout,
            found,
            config.load(
                ROOT,
                {"PLAIN_HTTP_REGISTRIES": registry.address, "SIGNATURE_POLICY": str(policy)},
            ),
        )
        layers = [name for name, content in registry.blobs.items() if content[:1] != b"{"]
        assert len(layers) == 3
        for name in layers:
            assert registry.count("GET", name) == 1


def test_a_pull_needs_little_memory(served: Served, tmp_path: pathlib.Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps({**served.job, "folder": str(tmp_path)}))
    argv = [sys.executable, "-m", "tests.registries.puller", tmp_path / "job.json"]
    output = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True).stdout
    assert json.loads(output)["peak"] < 64 * 1024
