import json
import random
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from buildchain.compare import difference, inventory
from buildchain.compare import steps as compare
from buildchain.core import listing
from buildchain.core.errors import BuildError, ConfigError, ContentError
from buildchain.medium import contents
from tests.unit import fakes, mounted
from tests.unit.mounted import Memory, complete, listed


def old():
    return listed(complete())


def new():
    """Return a medium with one of each kind of change."""
    files = complete()
    for path in [p for p in files if p.startswith("images/web/")]:
        del files[path]
    files |= {path: text.encode() for path, text in mounted.image("web", "1.1").items()}
    config = json.dumps({"config": {"Labels": {inventory.LICENSES: "BSD-2-Clause"}}})
    manifest = {"config": {"digest": f"sha256:{mounted.sha(config)}"}, "layers": []}
    files[f"images/tool/3/{mounted.sha(config)}"] = config.encode()
    files["images/tool/3/manifest.json"] = json.dumps(manifest).encode()
    for path in [p for p in files if p.startswith("packages/")]:
        del files[path]
    repositories = {
        **mounted.apt({"agent": "1.1-1", "extra": "1:3-1"}),
        **mounted.rpm("8", {"agent": ("1.1", "1")}),
        **mounted.rpm("9", {"agent": ("1.1", "1")}),
    }
    files |= {p: t.encode() if isinstance(t, str) else t for p, t in repositories.items()}
    files["product.txt"] = b"VERSION=3.0.0\nGIT=3.0.0-0-gabc\n"
    del files["bootstrap.sh"]
    files["notes.txt"] = b"<&>"
    return listed(files, version="3.0.0")


def compared(one, other):
    return difference.compare(inventory.read(Memory(one)), inventory.read(Memory(other)))


def test_nothing_differs():
    found = compared(old(), old())
    assert (found.packages, found.images, found.files) == ((), (), ())
    assert difference.text(found).splitlines() == [
        "Demo 2.9.0 -> Demo 2.9.0",
        *difference.text(found).splitlines()[1:2],
        "",
        "Packages: 0 new, 0 gone, 0 changed",
        "",
        "Images: 0 new, 0 gone, 0 changed",
        "",
        "Other files: 0 new, 0 gone, 0 changed",
    ]


def test_as_text():
    lines = difference.text(compared(old(), new())).splitlines()
    assert lines[0] == "Demo 2.9.0 -> Demo 3.0.0 (3.0.0-0-gabc)"
    for line in (
        "Packages: 2 new, 1 gone, 2 changed",
        "  agent [debian/metalk8s]: 1.0-1 amd64 -> 1.1-1 amd64 (0 B)",
        "  agent [redhat/metalk8s-el8]: 1.1-1 x86_64 is new (+5 B)",
        "  agent [redhat/metalk8s-el9]: 1.0-1 x86_64 -> 1.1-1 x86_64 (0 B)",
        "  extra [debian/metalk8s]: 1:3-1 amd64 is new (+5 B)",
        "  kubelet [debian/metalk8s]: 1.20.2-1 amd64 is gone (-7 B)",
        "Images: 1 new, 0 gone, 1 changed",
        "  web [images]: 1.0 -> 1.1 (0 B)",
        "  notes.txt: is new",
        "  bootstrap.sh: is gone",
        "  product.txt: other content (+7 B)",
    ):
        assert line in lines, line


def test_what_happens_alike_in_two_repositories_is_told_once():
    one, other = complete(), complete()
    for files, version in ((one, "1.0"), (other, "2.0")):
        for release in ("8", "9"):
            repository = mounted.rpm(release, {"agent": (version, "1"), "same": ("1", "1")})
            files |= {p: t.encode() if isinstance(t, str) else t for p, t in repository.items()}
    [change] = compared(listed(one), listed(other)).packages
    assert change.places == ("packages/redhat/metalk8s-el8", "packages/redhat/metalk8s-el9")


def test_as_json():
    found = json.loads(difference.document(compared(old(), new())))
    assert found["new"]["version"] == "3.0.0"
    assert found["old"]["files"] == len(old()) - 2, "the list does not list itself"
    tool = next(change for change in found["images"] if change["name"] == "tool")
    assert tool["old"] is None
    assert tool["new"]["license"] == "BSD-2-Clause"
    agent = next(c for c in found["packages"] if c["places"] == ["packages/redhat/metalk8s-el9"])
    assert agent["new"] == {
        "version": "1.1-1 x86_64",
        "digest": mounted.sha("agent"),
        "size": 5,
        "license": "MIT",
    }
    notes = next(change for change in found["files"] if change["name"] == "notes.txt")
    assert notes == {
        "name": "notes.txt",
        "old": None,
        "new": {"digest": mounted.sha("<&>"), "size": 3, "mode": "0644"},
    }


def test_as_a_page():
    html = difference.page(compared(old(), new()))
    tags = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            tags.append(tag)

        def handle_endtag(self, tag):
            while tags and tags.pop() != tag:
                pass

    Reader().feed(html)
    assert tags == [], "what was opened is closed"
    assert "notes.txt" in html
    assert "http" not in html, "it needs nothing from elsewhere"


def test_modes_and_license_changes_are_told():
    files = old()
    files[listing.NAME] = files[listing.NAME].replace(b"f 0644 1", b"f 0755 1")
    assert "mode 644 -> 755" in difference.text(compared(old(), files))
    package = inventory.Item("packages/x", "a", "1", "0", 1, "MIT")
    other = inventory.Item("packages/x", "a", "2", "1", 1, "")
    change = difference.Change("a", ("packages/x",), package, other)
    assert "license MIT -> ?" in difference._item_line(change)


def test_an_image_by_its_index():
    [tool] = [i for i in inventory.read(Memory(old())).images if i.name == "kube-index"]
    folder = "images/kube-index/v1.20.2"
    index = json.loads(old()[f"{folder}/index.json"])
    assert f"sha256:{tool.digest}" == index["manifests"][0]["digest"]


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (-(5 << 30), "-5.0 GiB")]
)
def test_sizes_in_words(size, words):
    assert difference.bytes_in_words(size) == words


# -- bad input ----------------------------------------------------------------------------------
@pytest.fixture
def image(tmp_path, fake_program):
    """Return a real ISO image of the small medium."""
    for path, content in old().items():
        target = tmp_path / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    program = fake_program("xorrisofs", fakes.mkisofs(), site=True)
    iso = tmp_path / "medium.iso"
    argv = [sys.executable, program, "-V", "DEMO", "-output", iso, tmp_path / "tree"]
    subprocess.run(argv, check=True, capture_output=True)
    return iso


def test_an_image_and_its_tree_are_the_same(image, tmp_path):
    with contents.opened(image) as iso, contents.opened(tmp_path / "tree") as tree:
        assert iso.paths() == tree.paths() == set(old())
        found = difference.compare(inventory.read(iso), inventory.read(tree))
        for reader in (iso, tree):
            with pytest.raises(KeyError):
                reader.read("nothing")
    assert found.files == ()


@pytest.mark.parametrize("damage", [0, 1000, 40000, 100000, "garbage", "zeros"])
def test_a_damaged_image_is_one_clear_error(image, damage):
    data = image.read_bytes()
    if damage == "garbage":
        data = data[:32768] + random.Random(1).randbytes(len(data) - 32768)
    data = bytes(len(data)) if damage == "zeros" else data[:damage] if damage != "garbage" else data
    image.write_bytes(data)
    with pytest.raises(ContentError) as caught, contents.opened(image) as medium:
        inventory.read(medium)
    assert str(image) in caught.value.reason
    assert len(caught.value.reason) < 300


@pytest.mark.parametrize(
    ("path", "content", "sentence"),
    [
        (listing.NAME, None, "has no MANIFEST"),
        (listing.NAME, b"\xff", "not UTF-8"),
        (listing.NAME, b"#name=x\nhello\n", "line 2: not what we write: 'hello'"),
        ("product.txt", b"VERSION=9", "product.txt of the medium is not what its MANIFEST says"),
    ],
)
def test_a_medium_that_is_none(path, content, sentence):
    files = old()
    files[path] = content
    if content is None:
        del files[path]
    with pytest.raises(ContentError, match=sentence):
        inventory.read(Memory(files))


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("packages/redhat/metalk8s-el9/repodata/repomd.xml", b"<repomd"),
        ("packages/redhat/metalk8s-el9/repodata/repomd.xml", b"<repomd/>"),
        ("packages/debian/metalk8s/dists/bookworm/main/binary-amd64/Packages", b"Package: x"),
        ("images/web/1.0/manifest.json", b"["),
    ],
)
def test_a_list_that_is_none(path, content):
    with pytest.raises(ContentError, match="the lists of the medium cannot be read"):
        inventory.read(Memory(listed({**complete(), path: content})))


# -- as a task ----------------------------------------------------------------------------------
def failure(result):
    return result.message if result is not None else ""


def test_the_task(image, tmp_path, monkeypatch, recorded):
    monkeypatch.setenv("CALLED_FROM", str(tmp_path))
    assert compare._diff(["medium.iso", "tree"], "") is None
    assert "Packages: 0 new, 0 gone, 0 changed" in recorded.lines
    for name in ("out.html", "out.json", "out.txt"):
        assert compare._diff(["medium.iso", "tree"], name) is None
        assert (tmp_path / name).is_file()


@pytest.mark.parametrize(
    ("media", "output", "sentence"),
    [
        (["medium.iso"], "", "diff compares two media, 1 were named"),
        (["medium.iso", "none.iso"], "", "none.iso: No such file or directory"),
        (["medium.iso", "medium.iso"], "out.pdf", "--output out.pdf: expected a name that ends in"),
    ],
)
def test_the_task_refuses(image, tmp_path, monkeypatch, media, output, sentence):
    monkeypatch.setenv("CALLED_FROM", str(tmp_path))
    assert sentence in failure(compare._diff(media, output))


def test_formats():
    with pytest.raises(ConfigError):
        difference.format_of("x")
    assert difference.format_of("/a.b/x.json") is difference.document
    assert issubclass(ConfigError, BuildError)
