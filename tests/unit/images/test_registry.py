import hashlib
import json

import pytest

from buildchain.core import receipt
from buildchain.core.errors import ContentError
from buildchain.core.receipt import Made
from buildchain.images import registry


def image(layout, name, version):
    folder = layout.image(name, version)
    folder.mkdir(parents=True)
    blobs = {}
    for content in (b"{}", b"layer"):
        digest = hashlib.sha256(content).hexdigest()
        (folder / digest).write_bytes(content)
        blobs[content] = {"digest": f"sha256:{digest}", "size": len(content)}
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json", **blobs[b"{}"]},
        "layers": [{
            "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **blobs[b"layer"]}],
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "version").write_text("Directory Transport Version: 1.1\n")
    return folder


def made_by(layout, *folders):
    path = layout.receipt("_image_build:x")
    receipt.write(path, layout.build, Made(folders))
    return [path]


def test_generate(layout):
    image(layout, "stale", "1.0")
    receipts = made_by(layout, image(layout, "pause", "3.4"))
    made = registry.generate(layout, "2.8.0", receipts)
    assert made.paths == (layout.registry_config / "registry-config.inc",)
    text = made.paths[0].read_text()
    assert "/srv/scality/metalk8s-2.8.0/images" in text
    assert "metalk8s-2.8.0" in text
    assert "pause" in text
    assert "stale" not in text, "it lies there, but nobody made it now"


def test_an_image_that_cannot_be_served(layout):
    folder = image(layout, "pause", "3.4")
    (folder / "manifest.json").write_text("{")
    with pytest.raises(ContentError) as caught:
        registry.generate(layout, "2.8.0", made_by(layout, folder))
    assert str(folder / "manifest.json") in caught.value.reason
    assert not (layout.registry_config / "registry-config.inc").exists()


def test_the_generator_is_an_input():
    files = registry.generator_files()
    assert {path.suffix for path in files} == {".py"}
    assert "__init__.py" in {path.name for path in files}
