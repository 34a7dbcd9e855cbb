import hashlib
import io
import json
import tarfile

import pytest

from buildchain.core.errors import ContentError, PinError
from buildchain.images import build
from buildchain.images.build import Below, Recipe
from buildchain.machine import engine
from buildchain.project.model import Image
from tests.unit import fakes

EPOCH = 1700000000
ETCD = Image("etcd", "3.4.23", "etcd store", "Apache-2.0", ("etcd-server",), "etcd-server")
PAUSE = Image("pause", "3.4", "Pause", "MIT", from_scratch=True)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tar_of(entries: dict[str, str], mtime: int = 0) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in entries.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(text), mtime
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def export(folder, layers, config):
    """Write what skopeo would: the image with uncompressed layers."""
    folder.mkdir(parents=True)
    document = {
        "architecture": "arm64", "created": "2026-01-01T00:00:00Z", "container": "abc",
        "docker_version": "20", "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha(layer)}" for layer in layers]},
        "history": [{"created_by": "RUN on my machine"}],
    }  # fmt: skip
    packed = json.dumps(document).encode()
    for blob in (*layers, packed):
        (folder / sha(blob)).write_bytes(blob)
    manifest = {
        "schemaVersion": 2,
        "config": {"digest": f"sha256:{sha(packed)}"},
        "layers": [{"digest": f"sha256:{sha(layer)}"} for layer in layers],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def exports(tmp_path, fake_program):
    folder = tmp_path / "exports"
    fake_program("skopeo", fakes.SKOPEO.format(folder=str(folder)))
    return folder


def closure(layout, name, *versions):
    layout.closure(name).parent.mkdir(parents=True, exist_ok=True)
    entries = [
        {"name": package, "version": version, "architecture": "amd64", "file": f"{package}.deb",
         "size": 1, "sha256": sha(package.encode())}
        for package, version in versions
    ]  # fmt: skip
    layout.closure(name).write_text(json.dumps(entries))
    for package, _ in versions:
        path = layout.store / "sha256" / sha(package.encode())[:2] / sha(package.encode())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(package)


@pytest.mark.parametrize(
    ("version", "good"),
    [
        ("3.4.23-4", True),
        ("3.4.23+dfsg-4+b2", True),
        ("1:3.4.23-4", True),
        ("3.4.23", True),
        ("3.4.24-1", False),
        ("3.4.2-3", False),
    ],
)
def test_tag_is_compared_with_the_package(layout, version, good):
    closure(layout, "image-etcd", ("libc6", "2"), ("etcd-server", version))
    if good:
        build.check_version(ETCD, layout)
        return
    with pytest.raises(PinError, match=r"pinned to 3\.4\.23, but the archive has") as caught:
        build.check_version(ETCD, layout)
    assert f'version = "{version.rsplit("-", 1)[0]}"' in caught.value.solution


def test_version_of_a_package_that_is_not_there(layout):
    closure(layout, "image-etcd", ("libc6", "2"))
    with pytest.raises(PinError, match="etcd-server is not among its packages"):
        build.check_version(ETCD, layout)


def test_labels():
    assert build.labels(PAUSE, "Acme", EPOCH) == {
        "org.opencontainers.image.title": "Pause",
        "org.opencontainers.image.version": "3.4",
        "org.opencontainers.image.licenses": "MIT",
        "org.opencontainers.image.vendor": "Acme",
        "org.opencontainers.image.created": "2023-11-14T22:13:20Z",
    }


def reference(layout, name):
    """Return what an image is called in the engine while it is made."""
    return engine.own_name(layout.build, name)


def recipe(tmp_path, image):
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM scratch\n")
    return Recipe(image, {"Dockerfile": dockerfile}, {"a": "b"}, EPOCH, "amd64")


def make(layout, recipe, below):
    return build.make(layout, recipe, below, docker="docker", skopeo_bin="skopeo")


def read(folder):
    """Return manifest and configuration after checking every blob of an image."""
    manifest = json.loads((folder / "manifest.json").read_text())
    blobs = [manifest["config"], *manifest["layers"]]
    for blob in blobs:
        data = (folder / blob["digest"].removeprefix("sha256:")).read_bytes()
        assert (sha(data), len(data)) == (blob["digest"].removeprefix("sha256:"), blob["size"])
    expected = {"manifest.json", "version", *(b["digest"].removeprefix("sha256:") for b in blobs)}
    assert {path.name for path in folder.iterdir()} == expected
    name = manifest["config"]["digest"].removeprefix("sha256:")
    return manifest, json.loads((folder / name).read_text())


def test_image_from_scratch(layout, engine, exports, tmp_path, fake_program):
    config = {"User": "65535", "Hostname": "builder", "Labels": {"c": "d"}, "Cmd": None,
              "Entrypoint": ["/pause"]}  # fmt: skip
    export(exports / reference(layout, "pause:3.4"), [tar_of({"pause": "elf"}, 5)], config)
    made = make(layout, recipe(tmp_path, PAUSE), Below("", (), ()))
    folder = layout.image("pause", "3.4")
    manifest, configuration = read(folder)
    assert made.facts == {
        "name": "pause",
        "version": "3.4",
        "digest": sha((folder / "manifest.json").read_bytes()),
    }
    assert manifest["mediaType"] == build.MANIFEST
    assert configuration == {
        "architecture": "amd64",
        "os": "linux",
        "created": "2023-11-14T22:13:20Z",
        "config": {"User": "65535", "Entrypoint": ["/pause"], "Labels": {"a": "b", "c": "d"}},
        "rootfs": configuration["rootfs"],
        "history": [
            {"created": "2023-11-14T22:13:20Z", "created_by": "MetalK8s build chain: pause"}
        ],
    }
    assert (folder / "version").read_text() == "Directory Transport Version: 1.1\n"
    ((name, context, arguments),) = engine.builds
    assert name == reference(layout, "pause:3.4")
    assert set(context) == {"Dockerfile"}
    assert arguments == {"SOURCE_DATE_EPOCH": str(EPOCH), "VERSION": "3.4"}
    assert engine.images == {}, "the engine keeps no copy"
    (call,) = fake_program.calls("skopeo")
    assert f"--src-daemon-host={engine.url}" in call


def test_dates_of_the_build_do_not_reach_the_image(layout, engine, exports, tmp_path):
    digests = set()
    for mtime in (1, 2):
        folder = exports / reference(layout, "pause:3.4")
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        export(folder, [tar_of({"pause": "elf"}, mtime)], {"Entrypoint": ["/pause"]})
        made = make(layout, recipe(tmp_path, PAUSE), Below("", (), ()))
        digests.add(made.facts["digest"])
    assert len(digests) == 1


@pytest.fixture
def based(layout, engine, exports, tmp_path):
    """Return the base of an image and the export of an image on it."""
    base = tar_of({"etc/os-release": "Debian"})
    export(exports / reference(layout, "etcd:3.4.23"), [base, tar_of({"x": "y"})], {"User": "2379"})
    closure(layout, "image-etcd", ("etcd-server", "3.4.23-1"))
    engine.add_image("base:1")
    layout.base.mkdir()
    blob = layout.base / ("ab" * 32)
    blob.write_bytes(b"compressed base")
    return Below("base:1", (f"sha256:{sha(base)}",), (blob,))


def test_image_on_our_base_shares_its_blob(layout, engine, based, tmp_path):
    make(layout, recipe(tmp_path, ETCD), based)
    folder = layout.image("etcd", "3.4.23")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["layers"][0]["digest"] == "sha256:" + "ab" * 32
    assert (folder / ("ab" * 32)).samefile(based.blobs[0])
    assert len(manifest["layers"]) == 2
    ((_, context, arguments),) = engine.builds
    assert arguments["BASE_IMAGE"] == "base:1"
    assert set(context) == {"Dockerfile", "debs/etcd-server_3.4.23-1_amd64.deb"}


def test_image_on_a_foreign_base_compresses_its_layers(layout, based, tmp_path):
    make(layout, recipe(tmp_path, ETCD), Below(based.reference, based.diff_ids, ()))
    manifest, configuration = read(layout.image("etcd", "3.4.23"))
    assert configuration["rootfs"]["diff_ids"][0] == based.diff_ids[0]
    assert len(manifest["layers"]) == 2


def test_an_image_that_does_not_stand_on_the_base(layout, based, tmp_path):
    other = Below(based.reference, ("sha256:" + "00" * 32,), based.blobs)
    with pytest.raises(ContentError, match="image etcd is not built on base:1"):
        make(layout, recipe(tmp_path, ETCD), other)
    assert not layout.image("etcd", "3.4.23").exists()
    assert [p.name for p in layout.build.iterdir() if p.name.startswith("image-")] == []


def test_share(fake_program, tmp_path):
    fake_program("my-hardlink")
    build.share([tmp_path / "a", tmp_path / "b"], "my-hardlink")
    assert fake_program.calls("my-hardlink") == [
        ["-c", "-q", str(tmp_path / "a"), str(tmp_path / "b")]
    ]
