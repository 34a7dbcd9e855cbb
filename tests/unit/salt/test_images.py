"""Images from the tree of an ISO to a container engine."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import tarfile
from typing import Any

import pytest

from .loader import load

ENGINE = {"metalk8s_engine.command": lambda: ["ctr", "--address", "/s", "--namespace", "k8s.io"]}
REFERENCE = "registry.invalid/metalk8s-1/nginx:1.2"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """Make an image of two layers, one of them twice, as skopeo lays it out."""
    folder = tmp_path / "nginx" / "1.2"
    folder.mkdir(parents=True)
    blobs = [b"{}", b"layer one", b"layer two", b"layer one"]
    described = [
        {"mediaType": "x", "size": len(blob), "digest": f"sha256:{sha256(blob)}"} for blob in blobs
    ]
    for blob in blobs:
        (folder / sha256(blob)).write_bytes(blob)
    manifest = {"mediaType": "m", "config": described[0], "layers": described[1:]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def engine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a ``ctr`` on the path that runs a line of shell."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    def program(script: str) -> None:
        (programs / "ctr").write_text(f"#!/bin/sh\n{script}\n")
        (programs / "ctr").chmod(0o755)

    return program


def test_archive_is_an_image_layout(tree: pathlib.Path) -> None:
    """Each blob once, under its digest, and an index that gives the image its name."""
    images = load("_modules/metalk8s_images", salt=ENGINE)
    stream = io.BytesIO()
    images.write_archive(REFERENCE, str(tree), stream)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        names = archive.getnames()
        content = {name: archive.extractfile(name).read() for name in names}  # type: ignore[union-attr]
    assert len(names) == len(set(names)) == 6
    [entry] = json.loads(content["index.json"])["manifests"]
    assert entry["annotations"] == {"io.containerd.image.name": REFERENCE}
    assert entry["mediaType"] == "m"
    assert content[f"blobs/sha256/{entry['digest'][7:]}"] == (tree / "manifest.json").read_bytes()
    for name, blob in content.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{sha256(blob)}"


def test_blob_that_is_not_whole_is_an_error(tree: pathlib.Path, engine: Any) -> None:
    """Nothing that is known to be broken is handed over."""
    (tree / sha256(b"layer two")).write_bytes(b"layer")
    engine("cat >/dev/null; exit 0")
    with pytest.raises(ValueError, match="9 bytes is not whole"):
        load("_modules/metalk8s_images", salt=ENGINE).load(REFERENCE, str(tree))


def test_load(tree: pathlib.Path, engine: Any, tmp_path: pathlib.Path) -> None:
    """The engine reads the archive from its standard input."""
    engine(f'echo "$@" >{tmp_path}/said; tar -t >{tmp_path}/got')
    load("_modules/metalk8s_images", salt=ENGINE).load(REFERENCE, str(tree))
    assert (tmp_path / "said").read_text() == "--address /s --namespace k8s.io images import -\n"
    assert "index.json" in (tmp_path / "got").read_text()


@pytest.mark.parametrize(
    "script", ["cat >/dev/null; echo no room >&2; exit 1", "echo no room >&2; exit 1"]
)
def test_engine_that_refuses_is_quoted(tree: pathlib.Path, engine: Any, script: str) -> None:
    """Whether it reads to the end or not."""
    engine(script)
    with pytest.raises(RuntimeError, match="no room"):
        load("_modules/metalk8s_images", salt=ENGINE).load(REFERENCE, str(tree))


def test_present(engine: Any) -> None:
    """The digest is the third column of what ``ctr`` lists."""
    images = load("_modules/metalk8s_images", salt=ENGINE)
    engine(f"echo 'REF TYPE DIGEST SIZE'; echo '{REFERENCE} type sha256:12 3 MiB'")
    assert images.present(REFERENCE) == "sha256:12"
    engine("echo 'REF TYPE DIGEST SIZE'")
    assert images.present(REFERENCE) == ""


@pytest.mark.parametrize(
    ("found", "test", "result", "loads"),
    [
        ("", False, True, 1),
        ("", True, None, 0),
        ("sha256:old", False, True, 1),
        ("sha256:new", False, True, 0),
        ("sha256:new", True, True, 0),
    ],
)
def test_state(found: str, test: bool, result: bool | None, loads: int) -> None:
    """It loads when the engine has none, or another."""
    loaded = []
    functions = {
        "metalk8s_images.digest": lambda tree: "sha256:new",
        "metalk8s_images.present": lambda name: found,
        "metalk8s_images.load": lambda *arguments: loaded.append(arguments),
    }
    state = load("_states/metalk8s_image", salt=functions, opts={"test": test})
    answer = state.loaded(REFERENCE, tree="/iso/nginx")
    assert answer["result"] is result
    assert bool(answer["changes"]) is (found != "sha256:new")
    assert loaded == [(REFERENCE, "/iso/nginx")] * loads


def test_state_says_why_it_fails() -> None:
    """In the engine's words."""

    def refuse(*arguments: str) -> None:
        raise RuntimeError("no room")

    functions = {
        "metalk8s_images.digest": lambda tree: "sha256:new",
        "metalk8s_images.present": lambda name: "",
        "metalk8s_images.load": refuse,
    }
    answer = load("_states/metalk8s_image", salt=functions).loaded(REFERENCE, tree="/iso")
    assert (answer["result"], answer["comment"], answer["changes"]) == (False, "no room", {})
