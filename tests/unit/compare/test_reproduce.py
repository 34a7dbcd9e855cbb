import dataclasses
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from buildchain.compare import reproduce
from buildchain.core.errors import ConfigError, ContentError
from buildchain.signatures.folder import Folder

MANIFEST = "#name=Demo\n0 d 0755 0 salt\n{sha} f 0644 1 salt/a b\n1 f {mode} 1 other\n"


def built(layout, name, *, sha="2", mode="0644", iso="same", content="x"):
    made = dataclasses.replace(layout, build=layout.build / name)
    (made.iso_root / "salt").mkdir(parents=True)
    (made.iso_root / "MANIFEST").write_text(MANIFEST.format(sha=sha, mode=mode))
    (made.iso_root / "salt/a b").write_text(content)
    (made.iso_root / "other").write_text("o")
    made.iso.write_text(iso)
    return made


def test_equal(layout, recorded):
    reproduce.compare(built(layout, "one"), built(layout, "two"))
    assert "came out the same" in "\n".join(recorded.lines)


@pytest.mark.parametrize(
    ("second", "names", "words"),
    [
        ({"sha": "3", "content": "y"}, "salt/a b", "1 170 171"),
        ({"mode": "0755"}, "other", "modes or types differ"),
    ],
)
def test_what_differs_is_named(layout, recorded, second, names, words):
    first, other = built(layout, "one"), built(layout, "two", iso="other", **second)
    with pytest.raises(ContentError, match=f"1 files differ in a second build.*{names}"):
        reproduce.compare(first, other)
    assert words in " ".join("\n".join(recorded.lines).split())


def image(tree, config, layers):
    folder = tree / "images/demo/1.0"
    folder.mkdir(parents=True)
    blobs = [config.encode(), *(layer(name, content) for name, content in layers)]
    names = [hashlib.sha256(blob).hexdigest() for blob in blobs]
    for name, blob in zip(names, blobs, strict=True):
        (folder / name).write_bytes(blob)
    digests = [{"digest": f"sha256:{name}"} for name in names]
    manifest = {"config": digests[0], "layers": digests[1:]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    rows = [f"{name} f 0644 1 images/demo/1.0/{name}" for name in names]
    rows.append(f"{config} f 0644 1 images/demo/1.0/manifest.json")
    (tree / "MANIFEST").write_text("\n".join([*rows, ""]))


def layer(name, content):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as archive:
        for each in ("usr/same", name):
            entry = tarfile.TarInfo(each)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    # The time that gzip writes is none of this test's business.
    return stream.getvalue()[:4] + bytes(4) + stream.getvalue()[8:]


def test_what_differs_in_an_image(layout, recorded, monkeypatch):
    monkeypatch.setattr(reproduce.shutil, "which", lambda name: None)
    first, other = built(layout, "one"), built(layout, "two", iso="other")
    image(first.iso_root, "c1", [("usr/base", b"x"), ("usr/stamp1", b"y")])
    image(other.iso_root, "c2", [("usr/base", b"x"), ("usr/stamp2", b"y"), ("usr/more", b"z")])
    with pytest.raises(
        ContentError, match=r"3 files differ.*demo/1.0: config, .*layer 2, .*layer 3"
    ):
        reproduce.compare(first, other)
    told = "\n".join(recorded.lines)
    assert "images/demo/1.0: layer 2: usr/stamp1, usr/stamp2" in told
    assert "images/demo/1.0: layer 3: is not in the first build" in told


def test_the_same_members_packed_otherwise(layout, monkeypatch):
    monkeypatch.setattr(reproduce.shutil, "which", lambda name: None)
    packed = layer("usr/x", b"y")
    for name, content in (("one", packed), ("two", packed[:4] + b"\1" + packed[5:])):
        (layout.build / name).write_bytes(content)
    assert reproduce.explain(layout.build / "one", layout.build / "two").split() == ["5", "0", "1"]


def test_a_file_that_is_missing(layout):
    first, other = built(layout, "one"), built(layout, "two", sha="3", iso="other")
    (other.iso_root / "salt/a b").unlink()
    assert (
        reproduce.explain(first.iso_root / "salt/a b", other.iso_root / "salt/a b")
        == "is not in the second build"
    )


def test_only_the_image_differs(layout):
    with pytest.raises(ContentError, match="the trees are equal"):
        reproduce.compare(built(layout, "one"), built(layout, "two", iso="other"))


GIT = """
import pathlib
if "describe" in argv:
    print({described!r})
elif "clone" in argv:
    target = pathlib.Path(argv[-1])
    target.mkdir()
    script = "#!/bin/sh\\n(umask; echo $TZ $BUILD_ROOT $CACHE_ROOT) >said\\n"
    (target / "doit.sh").write_text(script)
    (target / "doit.sh").chmod(0o755)
"""


def test_rebuild(layout, fake_program):
    fake_program("git", GIT.format(described="1.0-0-gabc"))
    (layout.root / ".venv").mkdir(parents=True)
    build = reproduce.rebuild(layout, "git", {"PROFILE": "default"})
    checkout = build.parent
    assert layout.build in checkout.parents
    mask, settings = (checkout / "said").read_text().splitlines()
    assert mask.endswith("77")
    zone, build_root, cache = settings.split()
    assert (zone, build_root) == ("Pacific/Kiritimati", "_build")
    assert sorted(path.name for path in Path(cache).iterdir()) == ["keys", "store"]
    assert all((Path(cache) / name).resolve() == layout.cache / name for name in ("keys", "store"))
    assert (checkout / ".venv").is_symlink()


def test_changes_that_are_not_committed(layout, fake_program):
    fake_program("git", GIT.format(described="1.0-0-gabc-dirty"))
    with pytest.raises(ConfigError, match="differ from its commit"):
        reproduce.rebuild(layout, "git", {})


def test_signatures_from_elsewhere_serve_the_second_build(layout, fake_program):
    """The same bytes have the same signatures: nobody is asked to sign them again."""
    Folder(layout.signatures).add({"identity": b"signature"})
    fake_program(
        "git",
        """
import pathlib
if "clone" in argv:
    script = pathlib.Path(argv[-1], "doit.sh")
    script.parent.mkdir()
    script.write_text("#!/bin/sh\\ncat _build/signatures/answers/*/identity _build/.metalk8s")
    script.chmod(0o755)
elif "describe" in argv:
    print("1.0-0-gabc")
""",
    )
    build = reproduce.rebuild(layout, "git", {})
    [kept] = Folder(build / "signatures").answers.glob("*/identity")
    assert kept.read_bytes() == b"signature"
