from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from static_container_registry import (
    Blob,
    Document,
    Problem,
    Repository,
    Tag,
    TreeError,
    check,
    read_tree,
)
from static_container_registry.manifest import ManifestError, parse
from tests import fixture_tree
from tests.fixture_tree import (
    DOCKER,
    DOCKER_LIST,
    OCI,
    OCI_INDEX,
    Layout,
    image,
    items,
    multiple,
    sha256,
    write_manifest,
)


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
    repositories = read_tree(tree)
    found = list(items(tree, repositories))
    assert [(i.name, i.tag, i.media_type) for i in found] == [
        ("a.b", "1.0", DOCKER),
        ("a.b", "2.0-rc.1", DOCKER),
        ("a.b", "latest", DOCKER),
        ("org", "1", DOCKER),
        ("org/team/my-app", "v1", OCI),
        ("org/team/my-app", "v2", OCI),
        ("pause", "3.2", DOCKER),
    ]
    digits = sha256((tree / "pause/3.2/manifest.json").read_bytes())
    assert repositories[-1] == Repository(
        "pause",
        (Tag("3.2", digits),),
        (Document(digits, DOCKER, "pause/3.2/manifest.json"),),
        tuple(sorted(Blob(path.name, "pause/3.2") for path in found[-1].blobs)),
    )
    assert layer_of(tree / "pause/3.2") in found[-1].blobs
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
    assert [tag.name for tag in read_tree(tree)[-1].tags] == ["3.2", "latest"]
    (tree / "pause/loop").symlink_to("..")
    (tree / "pause/out").symlink_to(tmp_path)
    assert reasons(tree) == {
        "pause/loop": "links to something that is not an image",
        "pause/out": "links to outside of the tree",
    }


def _files(root: Path) -> list[Path]:
    """Return every file that is served, or read to know what is."""
    return sorted(path for path in root.rglob("*") if path.is_file() and path.name != "version")


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("kind", ["dir", "index", "layout"])
def test_files_that_lead_out(tmp_path: Path, kind: str, number: int) -> None:
    """Whatever it is a link to, nginx would serve it."""
    root, outside = tmp_path / "images", tmp_path / "outside"
    if kind == "layout":
        layout = Layout(root / "app")
        layout.name(layout.image("app"), "1")
    elif kind == "index":
        multiple(root / "app" / "1")
    else:
        image(root / "app" / "1", "app")
    file = _files(root)[number % len(_files(root))]
    assert read_tree(root)
    file.rename(outside)
    file.symlink_to(outside)
    assert reasons(root)[file.relative_to(root).as_posix()] == "links to outside of the tree"
    # A link that stays inside is a file like others.
    file.unlink()
    beside = root / "app" / "1" if kind != "layout" else root / "app"
    outside.rename(beside / "signature-1")
    file.symlink_to(beside / "signature-1")
    assert read_tree(root)


def test_a_folder_of_blobs_that_leads_out(tmp_path: Path) -> None:
    root = tmp_path / "images"
    layout = Layout(root / "app")
    layout.name(layout.image("app"), "1")
    (root / "app" / "blobs").rename(tmp_path / "blobs")
    (root / "app" / "blobs").symlink_to(tmp_path / "blobs")
    assert set(reasons(root).values()) == {"links to outside of the tree"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mediaType": "application/vnd.oci.image.index.v1+json"}, "no list of manifests"),
        ({"mediaType": "application/vnd.oci.image.config.v1+json"}, "unsupported media type"),
        ({"mediaType": None, "schemaVersion": 1}, "a schema 1 manifest"),
        ({"mediaType": None, "manifests": 7}, "no list of manifests"),
        ({"subject": {"digest": "sha256:1"}}, "subject has digest"),
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


def test_layout_of_one_version(tmp_path: Path) -> None:
    parts = multiple(tmp_path / "org" / "multi" / "1.0")
    (found,) = read_tree(tmp_path)
    digests = {name: str(part["digest"]).removeprefix("sha256:") for name, part in parts.items()}
    assert found.name == "org/multi"
    assert {tag.name: tag.hex for tag in found.tags} == {
        "1.0": digests["index"],
        "latest": digests["index"],
        f"sha256-{'0' * 64}.sbom": digests["sbom"],
    }
    assert {one.hex for one in found.documents} == set(digests.values())
    assert len(found.blobs) == 8
    subjects = [digests["amd64"], digests["index"]]
    assert [one.subject for one in found.referrers] == sorted(subjects)
    assert check(tmp_path) == []


def test_places_of_layouts(tmp_path: Path) -> None:
    """A version's folder, a repository's, one without names, and a ``dir:`` of the same name."""
    version = Layout(tmp_path / "a" / "1.0")
    version.name(version.image("a"), "1.0")
    several = Layout(tmp_path / "org" / "b")
    several.name(several.image("one"), "1")
    several.name(several.image("two"), "2")
    several.name(several.image("no name"))
    nameless = Layout(tmp_path / "a" / "2.0")
    nameless.name(nameless.image("only one"))
    image(tmp_path / "a" / "3.0", "beside")
    found = [(one.name, [tag.name for tag in one.tags]) for one in read_tree(tmp_path)]
    assert found == [("a", ["1.0", "2.0", "3.0"]), ("org/b", ["1", "2"])]
    assert [len(one.documents) for one in read_tree(tmp_path)] == [3, 3]


def test_layout_as_a_whole_tree(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.name(layout.image("x"), "org/app:1")
    layout.name(layout.image("x"), "other:2")
    assert [(one.name, one.tags[0].name) for one in read_tree(tmp_path)] == [
        ("org/app", "1"),
        ("other", "2"),
    ]
    layout.name(layout.image("y"), "3")
    assert "<name>:<tag>" in reasons(tmp_path)["."]


def test_index_in_dir_form(tmp_path: Path) -> None:
    """What ``skopeo copy --all … dir:`` leaves."""
    layout = Layout(tmp_path / "layout")
    entry = layout.index(layout.image("one", DOCKER), media_type=DOCKER_LIST)
    target = tmp_path / "images" / "app" / "1"
    target.mkdir(parents=True)
    for path in (tmp_path / "layout/blobs/sha256").iterdir():
        content = path.read_bytes()
        is_child = b"schemaVersion" in content
        (target / f"{path.name}{'.manifest.json' if is_child else ''}").write_bytes(content)
    digits = str(entry["digest"]).removeprefix("sha256:")
    (target / f"{digits}.manifest.json").rename(target / "manifest.json")
    (found,) = read_tree(tmp_path / "images")
    assert [one.media_type for one in found.documents].count(DOCKER_LIST) == 1
    assert len(found.documents) == 2
    child = next(target.glob("*.manifest.json"))
    child.write_bytes(child.read_bytes() + b" ")
    assert "SHA-256" in reasons(tmp_path / "images")[f"app/1/{child.name}"]
    child.unlink()
    assert "missing" in reasons(tmp_path / "images")[f"app/1/{child.name}"]


def test_layouts_that_cannot_be_served(tmp_path: Path) -> None:
    def layout(name: str) -> Layout:
        return Layout(tmp_path / name / "1")

    gone = layout("gone")
    gone.name(gone.image("x"), "1")
    (tmp_path / "gone/1/blobs/sha256" / str(gone.entries[0]["digest"])[7:]).unlink()
    short = layout("short")
    short.name({**short.image("x"), "size": 7}, "1")
    liar = layout("liar")
    liar.name({**liar.image("x"), "mediaType": OCI_INDEX}, "1")
    nameless = layout("nameless")
    for text in "xy":
        nameless.name(nameless.image(text))
    (layout("old").folder / "oci-layout").write_text("{}")
    (layout("broken").folder / "index.json").write_text("[")
    tag = layout("tag")
    tag.name(tag.image("x"), "1")
    tag.name(tag.image("x"), "a/b")
    odd = layout("odd")
    odd.name({**odd.image("x"), "mediaType": "text/plain"}, "1")
    schema = layout("schema")
    old = "application/vnd.docker.distribution.manifest.v1+prettyjws"
    schema.name(schema.index({**schema.image("x"), "mediaType": old}), "1")
    (tmp_path / "schema" / "link").symlink_to("1")
    found = reasons(tmp_path)
    told = {path.split("/")[0]: reason for path, reason in found.items() if "link" not in path}
    for name, part in {
        "gone": "missing", "short": "the manifest says 7", "liar": "its descriptor says",
        "nameless": "2 entries", "old": "layout of version None", "broken": "not JSON",
        "tag": "'a/b' is not a valid tag", "odd": "text/plain", "schema": "schema 1",
    }.items():  # fmt: skip
        assert part in told[name]
    assert "index.json" in found["schema/link"]
    assert len(found) == 10


def test_tag_that_stands_for_two_images(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "a")
    layout.name(layout.image("one"), "1")
    image(tmp_path / "a" / "1", "another", OCI)
    (reason,) = reasons(tmp_path).values()
    assert reason.startswith("a:1 is sha256:")
