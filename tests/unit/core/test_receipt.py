import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core import receipt
from buildchain.core.errors import ContentError
from buildchain.core.receipt import Made

NAMES = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=20
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 100)
FACTS = st.dictionaries(
    st.text(max_size=8), st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                                      lambda inner: st.lists(inner, max_size=3), max_leaves=4),
    max_size=4,
)  # fmt: skip


@given(st.dictionaries(NAMES, st.binary(max_size=30), max_size=5), FACTS)
def test_round_trip(tmp_path_factory, contents, facts):
    build = tmp_path_factory.mktemp("build")
    folder = build / "out"
    for name, content in contents.items():
        receipt.write_whole(folder / name, content, 0o600)
    path = build / "receipts" / "step.json"
    made = Made((folder,) if contents else (), facts)
    written = receipt.write(path, build, made)
    assert receipt.read(path) == written
    assert {o.path: (o.sha256, o.size, o.mode) for o in written.outputs} == {
        f"out/{name}": (hashlib.sha256(content).hexdigest(), len(content), 0o600)
        for name, content in contents.items()
    }
    assert written.facts == facts
    assert receipt.is_complete(path, build)


def test_equal_outputs_give_equal_bytes(tmp_path):
    texts = []
    for order in (("b", "a"), ("a", "b")):
        build = tmp_path / order[0]
        for name in order:
            receipt.write_whole(build / name, name)
        path = build / "r.json"
        facts = dict.fromkeys(order, 1)
        receipt.write(path, build, Made(tuple(build / name for name in order), facts))
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]


def test_known_digests_are_taken(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    made = Made((file,), digests={file: "known"})
    assert receipt.write(tmp_path / "r.json", tmp_path, made).outputs[0].sha256 == "known"


def test_files_each_once_and_sorted(tmp_path):
    for name in ("b/2", "b/1", "a"):
        receipt.write_whole(tmp_path / name, "")
    (tmp_path / "b" / "empty").mkdir()
    (tmp_path / "b" / "folder-link").symlink_to("empty")
    found = list(receipt.files([tmp_path / "b", tmp_path, tmp_path / "a"]))
    assert [f.relative_to(tmp_path).as_posix() for f in found] == ["a", "b/1", "b/2",
                                                                  "b/folder-link"]  # fmt: skip


def test_sources_are_what_people_wrote(tmp_path):
    for name in ("plugin.py", "__pycache__/plugin.cpython-311.pyc"):
        receipt.write_whole(tmp_path / name, "")
    assert list(receipt.sources([tmp_path])) == [tmp_path / "plugin.py"]


@pytest.mark.parametrize(
    ("damage", "complete"),
    [
        (lambda build: None, True),
        (lambda build: (build / "out").unlink(), False),
        (lambda build: (build / "out").write_text("longer"), False),
        (lambda build: os.utime(build / "out", (1, 1)), True),
        (lambda build: (build / "r.json").unlink(), False),
        (lambda build: (build / "r.json").write_text("{"), False),
        (lambda build: (build / "r.json").write_text("{}"), False),
        (lambda build: (build / "r.json").write_bytes(b"\xff"), False),
    ],
)
def test_is_complete(tmp_path, damage, complete):
    (tmp_path / "out").write_text("text")
    receipt.write(tmp_path / "r.json", tmp_path, Made((tmp_path / "out",)))
    damage(tmp_path)
    assert receipt.is_complete(tmp_path / "r.json", tmp_path) is complete


def test_a_receipt_whose_shape_is_wrong_is_not_complete(tmp_path):
    for text in ("[]", "null", '{"outputs": [], "facts": {}}'):
        (tmp_path / "r.json").write_text(text)
        assert receipt.is_complete(tmp_path / "r.json", tmp_path) is False, text


def test_write_whole(tmp_path):
    path = tmp_path / "new" / "file"
    receipt.write_whole(path, "text", 0o640)
    assert path.read_text() == "text"
    assert path.stat().st_mode & 0o777 == 0o640
    receipt.write_whole(path, b"\x00")
    assert path.read_bytes() == b"\x00"
    assert list(path.parent.iterdir()) == [path]


def test_write_whole_leaves_nothing_on_failure(tmp_path):
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        receipt.write_whole(tmp_path / "folder", "text")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_the_format_on_disk(tmp_path):
    receipt.write_whole(tmp_path / "a", "x", 0o755)
    receipt.write(tmp_path / "r.json", tmp_path, Made((tmp_path / "a",), {"id": 1}))
    assert json.loads((tmp_path / "r.json").read_text()) == {
        "outputs": {
            "a": {"sha256": hashlib.sha256(b"x").hexdigest(), "size": 1, "mode": "755"},
        },
        "facts": {"id": 1},
    }


def test_missing_output_is_a_bug(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        receipt.write(tmp_path / "r.json", tmp_path, Made((tmp_path / "none",)))
    assert not (tmp_path / "r.json").exists()


def test_a_link_is_no_output(tmp_path):
    (tmp_path / "target").write_text("x")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(ContentError, match="link is a symbolic link"):
        receipt.write(tmp_path / "r.json", tmp_path, Made((tmp_path / "link",)))
    assert not (tmp_path / "r.json").exists()
