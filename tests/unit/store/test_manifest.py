import json

import pytest

from buildchain.core.errors import ContentError
from buildchain.store import manifest
from buildchain.store.manifest import DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST


def name(number: int) -> str:
    return f"sha256:{number:064x}"


def described(number: int, **more: object) -> dict[str, object]:
    return {"mediaType": "m", "digest": name(number), "size": number, **more}


def image(**changes: object) -> bytes:
    document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": described(1),
                "layers": [described(2), described(3), described(2)]}  # fmt: skip
    return json.dumps({**document, **changes}).encode()


def index(*platforms: str, kind: str = OCI_INDEX) -> manifest.Manifest:
    entries = []
    for number, platform in enumerate(platforms, 1):
        parts = dict(zip(("os", "architecture", "variant"), platform.split("/"), strict=False))
        entries.append(described(number, **({"platform": parts} if platform else {})))
    content = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": entries, "x": "ü"})
    return manifest.parse(content.encode(), "", "o")


@pytest.mark.parametrize("kind", [OCI_MANIFEST, DOCKER_MANIFEST])
def test_image(kind):
    content = image(mediaType=kind)
    found = manifest.parse(content, "text/plain", "o")
    assert (found.media_type, found.content, found.is_index) == (kind, content, False)
    assert found.digest == manifest.digest_of(content)
    assert [blob.digest for blob in found.blobs] == [name(1), name(2), name(3)], "each once"
    assert found.descriptor.size == len(content)


def test_oci_need_not_say_what_it_is():
    document = json.loads(image())
    del document["mediaType"]
    content = json.dumps(document).encode()
    assert manifest.parse(content, "", "o").media_type == OCI_MANIFEST
    assert manifest.parse(content, DOCKER_MANIFEST, "o").media_type == DOCKER_MANIFEST
    assert manifest.parse(b'{"manifests": []}', "", "o").media_type == OCI_INDEX


@pytest.mark.parametrize("kind", [OCI_INDEX, DOCKER_LIST])
def test_index(kind):
    found = index("linux/amd64", "linux/arm/v7", "", kind=kind)
    assert found.is_index
    assert [child.platform for child in found.children] == ["linux/amd64", "linux/arm/v7", ""]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "Expecting"),
        (b"[]", "no attribute"),
        (b"\xff", "decode"),
        (image(mediaType="application/vnd.docker.distribution.manifest.v1+json"), "its type is"),
        (image(config={}), "'digest' is missing"),
        (image(config=described(1, digest="sha256:00")), "is no sha256"),
        (image(config=described(1, digest="sha512:00")), "is no sha256"),
        (image(config=described(1, digest="sha256:../../../etc/passwd")), "is no sha256"),
        (image(config=described(1, size=-1)), "has the size -1"),
        (image(config=described(1, size="1")), "has the size '1'"),
        (image(config=described(1, size=True)), "has the size True"),
        (image(layers=None), "iterable"),
        (image(layers=["x"]), "indices"),
    ],
)
def test_refuse(content, reason):
    with pytest.raises(ContentError, match=f"^r.example/a: unsupported manifest.*{reason}"):
        manifest.parse(content, "", "r.example/a")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["all"], ["linux/amd64", "linux/arm64/v8", "linux/arm/v6", "linux/arm/v7", ""]),
        (["linux/amd64"], ["linux/amd64"]),
        (["linux/arm64"], ["linux/arm64/v8"]),
        (["linux/arm"], ["linux/arm/v6"]),
        (["linux/arm/v7", "linux/amd64"], ["linux/amd64", "linux/arm/v7"]),
    ],
)
def test_choose(wanted, expected):
    whole = index("linux/amd64", "linux/arm64/v8", "linux/arm/v6", "linux/arm/v7", "")
    assert [child.platform for child in manifest.choose(whole, wanted, "o")] == expected


def test_missing_platforms_are_named_with_what_there_is():
    with pytest.raises(ContentError) as caught:
        manifest.choose(index("linux/amd64", ""), ["linux/amd64", "plan9/mips"], "r.example/a")
    assert caught.value.reason == "r.example/a has no image for plan9/mips, only for linux/amd64"


def test_narrowed():
    whole = index("linux/amd64", "linux/arm64", "linux/s390x")
    assert manifest.narrowed(whole, whole.children) is whole
    less = manifest.narrowed(whole, whole.children[:2])
    document = json.loads(less.content)
    assert document["manifests"] == json.loads(whole.content)["manifests"][:2]
    assert document["x"] == "ü"
    assert less.digest == manifest.digest_of(less.content) != whole.digest
    assert manifest.parse(less.content, "", "o") == less
