import hashlib
import json

import pytest

from buildchain.core.errors import EngineError
from buildchain.debian import base
from buildchain.project.model import Content
from buildchain.signatures import signing
from buildchain.store.blobs import Store

MMDEBSTRAP = """
import tarfile, io
with tarfile.open(argv[-2], "w") as archive:
    for name in ("./etc/os-release", "./var/lib/dpkg/status"):
        member = tarfile.TarInfo(name)
        member.size = 4
        archive.addfile(member, io.BytesIO(b"text"))
"""
CONTENT = Content("bookworm", "amd64", 1700000000)


def closure(layout, name, *texts):
    """Write a closure of tiny packages that are in the store."""
    entries = []
    for text in texts:
        digest = hashlib.sha256(text.encode()).hexdigest()
        path = Store(layout.store).path(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        entries.append({"name": text, "version": "1", "architecture": "amd64",
                        "file": f"{text}_1_amd64.deb", "size": len(text),
                        "sha256": digest})  # fmt: skip
    layout.closure(name).parent.mkdir(parents=True, exist_ok=True)
    layout.closure(name).write_text(json.dumps(entries))


@pytest.fixture
def made(keyed, fake_program):
    closure(keyed, "base", "bash")
    fake_program("apt-ftparchive", output="text\n")
    fake_program("mmdebstrap", MMDEBSTRAP)
    with signing.signer(keyed, "") as signer:
        return base.make_base(keyed, ["apt"], CONTENT, signer)


def test_make_base(made, keyed, fake_program):
    diff_id = hashlib.sha256(keyed.base_tar.read_bytes()).hexdigest()
    assert made.facts["reference"] == f"metalk8s-base:{diff_id[:12]}"
    assert made.facts["diff_ids"] == [f"sha256:{diff_id}"]
    assert keyed.base_status.read_text() == "text"
    (blob,) = made.facts["blobs"]
    assert set(made.paths) == {keyed.base_tar, keyed.base_status, keyed.base / blob}
    assert all(hashlib.sha256(p.read_bytes()).hexdigest() == d for p, d in made.digests.items())
    (call,) = fake_program.records("mmdebstrap")
    assert call["env"]["SOURCE_DATE_EPOCH"] == "1700000000"
    assert [p.name for p in keyed.build.iterdir() if p.name.startswith("base-")] == []


def test_ensure_base_imports_what_the_engine_lost(made, keyed, engine):
    from buildchain.machine import engine as machine_engine

    reference = made.facts["reference"]
    with machine_engine.connect("docker") as client:
        for _ in range(2):
            assert base.ensure_base(keyed, client, reference) == reference
    assert engine.imported == {reference: keyed.base_tar.read_bytes()}
    assert engine.calls.count("POST /images/create") == 1


REFERENCE = "registry.example/debian@sha256:" + "ab" * 32


def test_pull_base(layout, engine):
    from buildchain.machine import engine as machine_engine

    engine.registry.add(REFERENCE)
    engine.files["/var/lib/dpkg/status"] = b"Package: bash\n"
    with machine_engine.connect("docker") as client:
        made = base.pull_base(layout, client, REFERENCE)
        assert base.ensure_base(layout, client, REFERENCE) == REFERENCE
        engine.images.clear()
        base.ensure_base(layout, client, REFERENCE)
    assert layout.base_status.read_bytes() == b"Package: bash\n"
    assert made.facts == {
        "reference": REFERENCE,
        "diff_ids": ["sha256:" + "d" * 64],
        "blobs": [],
    }
    assert engine.containers == {}
    assert engine.calls.count("POST /images/create") == 2


def test_pull_base_that_is_no_debian(layout, engine):
    from buildchain.machine import engine as machine_engine

    engine.registry.add(REFERENCE)
    with (
        pytest.raises(EngineError, match="BASE_IMAGE has no /var/lib/dpkg/status"),
        machine_engine.connect("docker") as client,
    ):
        base.pull_base(layout, client, REFERENCE)
    assert engine.containers == {}


def test_pull_base_that_is_not_there(layout, engine):
    from buildchain.machine import engine as machine_engine

    with pytest.raises(EngineError) as caught, machine_engine.connect("docker") as client:
        base.pull_base(layout, client, REFERENCE)
    assert "not found" in caught.value.details


@pytest.fixture
def recipe(layout, tmp_path):
    closure(layout, "builder", "gcc", "make")
    path = tmp_path / "Dockerfile"
    path.write_text("FROM x\n")
    return path


def test_images_are_named_by_what_is_in_them():
    name = base.content_name("a", [b"base", b"packages"])
    assert name == base.content_name("a", [b"base", b"packages"])
    assert len(name) == len("a:") + base.TAG_DIGITS
    others = [[b"base"], [b"basepackages"], [b"packages", b"base"], [b"base", b"package", b"s"]]
    assert name not in {base.content_name("a", parts) for parts in others}


def test_ensure_builder(layout, recipe, engine):
    from buildchain.machine import engine as machine_engine

    engine.add_image("base:1")
    with machine_engine.connect("docker") as client:
        first = base.ensure_builder(layout, client, "base:1", recipe)
        assert base.ensure_builder(layout, client, "base:1", recipe) == first
    ((reference, context, arguments),) = engine.builds
    assert reference == first
    assert arguments == {"BASE_IMAGE": "base:1"}
    assert context == {
        "Dockerfile": b"FROM x\n",
        "debs/gcc_1_amd64.deb": b"gcc",
        "debs/make_1_amd64.deb": b"make",
    }
    assert [p.name for p in layout.build.iterdir() if p.name.startswith("builder-")] == []
