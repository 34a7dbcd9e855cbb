from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from static_container_registry import Blob, Problem, TreeError, check, read_tree
from static_container_registry.manifest import ManifestError, parse
from tests import fixture_tree
from tests.fixture_tree import DOCKER, OCI, image, sha256, write_manifest


def reasons(root: Path) -> dict[str, str]:
    """What is wrong with a tree: relative path -> reason."""
    with pytest.raises(TreeError) as caught:
        read_tree(root)
    return {str(p.path.relative_to(root)): p.reason for p in caught.value.problems}


def layer_of(directory: Path) -> Path:
    manifest = json.loads((directory / "manifest.json").read_bytes())
    digest: str = manifest["layers"][0]["digest"]
    return directory / digest.split(":")[1]


def test_images_are_sorted_and_complete(tree: Path) -> None:
    images = read_tree(tree)
    assert [(i.name, i.tag, i.media_type) for i in images] == [
        ("a.b", "1.0", DOCKER),
        ("a.b", "2.0-rc.1", DOCKER),
        ("a.b", "latest", DOCKER),
        ("org", "1", DOCKER),
        ("org/team/my-app", "v1", OCI),
        ("org/team/my-app", "v2", OCI),
        ("pause", "3.2", DOCKER),
    ]
    pause = images[-1]
    assert pause.manifest_hex == sha256((tree / "pause/3.2/manifest.json").read_bytes())
    assert Blob(layer_of(tree / "pause/3.2").name, layer_of(tree / "pause/3.2").stat().st_size) in (
        pause.blobs
    )
    assert check(tree) == []


def test_every_problem_is_named(tree: Path) -> None:
    layer_of(tree / "pause/3.2").unlink()
    layer_of(tree / "a.b/1.0").write_bytes(b"short")
    (tree / "org/1/manifest.json").write_text("{")
    image(tree / "Upper" / "1", "bad name")
    image(tree / "ok" / "a+b", "bad tag")
    (tree / "empty").mkdir()
    (tree / "README").write_text("stray")
    (tree / "a.b/latest/notes").write_text("stray")
    found = reasons(tree)
    assert len(found) == 8
    assert "missing" in next(r for p, r in found.items() if p.startswith("pause/3.2/"))
    assert "5 bytes" in next(r for p, r in found.items() if p.startswith("a.b/1.0/"))
    assert "not JSON" in found["org/1/manifest.json"]
    assert "'Upper' is not a valid name" in found["Upper/1"]
    assert "'a+b' is not a valid tag" in found["ok/a+b"]
    assert "neither manifest.json" in found["empty"]
    assert {"README", "a.b/latest/notes"} < set(found)


def test_image_directly_below_the_root_has_no_name(tmp_path: Path) -> None:
    image(tmp_path / "images", "no name")
    assert "'.' is not a valid name" in reasons(tmp_path)["images"]


def test_empty_or_absent_tree(tmp_path: Path) -> None:
    assert reasons(tmp_path) == {".": "holds no image"}
    assert check(tmp_path / "gone") == [Problem(tmp_path / "gone", "not a directory")]


def test_symbolic_links(tree: Path, tmp_path: Path) -> None:
    (tree / "pause/latest").symlink_to("3.2")
    assert ("pause", "latest") in [(i.name, i.tag) for i in read_tree(tree)]
    (tree / "pause/loop").symlink_to("..")
    (tree / "pause/out").symlink_to(tmp_path)
    assert reasons(tree) == {
        "pause/loop": "links to something that is not an image",
        "pause/out": "links to outside of the tree",
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mediaType": "application/vnd.oci.image.index.v1+json"}, "unsupported media type"),
        ({"mediaType": None, "schemaVersion": 1}, "a schema 1 manifest"),
        ({"mediaType": None, "manifests": []}, "an index"),
        ({"mediaType": ["x"]}, "unsupported media type"),
        ({"schemaVersion": 1}, "schemaVersion 1"),
        ({"layers": None}, "no list of layers"),
        ({"layers": [7]}, "layer 0 is not described"),
        ({"config": None}, "config is not described"),
        ({"config": {"digest": "sha256:00", "size": 1}}, "config has digest"),
        ({"config": {"digest": "sha256:" + "0" * 64, "size": True}}, "config has size True"),
        ({"config": {"digest": "sha256:" + "0" * 64, "size": -1}}, "config has size -1"),
    ],
)
def test_manifests_that_cannot_be_served(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    manifest = image(tmp_path / "app" / "1", "x")
    write_manifest(tmp_path / "app" / "1", {**manifest, **change})
    assert reason in reasons(tmp_path)["app/1/manifest.json"]


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 200_000, b" " * (4 << 20) + b"{}"])
def test_hostile_manifests(content: bytes) -> None:
    with pytest.raises(ManifestError):
        parse(content)


def test_check_hashes_everything(tree: Path) -> None:
    damaged = layer_of(tree / "pause/3.2")
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert read_tree(tree)
    assert check(tree) == [Problem(damaged, f"has SHA-256 {sha256(damaged.read_bytes())}")]


def test_check_names_every_link_to_damaged_content(tree: Path) -> None:
    first = layer_of(tree / "a.b/1.0")
    second = tree / "a.b/latest" / first.name
    second.unlink()
    os.link(first, second)
    first.write_bytes(b"\0" * first.stat().st_size)
    assert [p.path for p in check(tree)] == [first, second]


def test_fixture_is_reproducible(tmp_path: Path) -> None:
    one, two = (fixture_tree.standard(tmp_path / name) for name in ("one", "two"))
    assert read_tree(one) == read_tree(two)
