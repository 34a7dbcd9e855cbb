"""Pull and content discovery of the OCI distribution specification 1.1, clause by clause.

Every case names the heading of its clause and says in our words what it demands. What is left to
the registry ("MAY") is a case where we made a promise. Runs against the generated configuration
in a real nginx; nothing in here knows how it works inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from static_container_registry import Options, read_tree, render
from static_container_registry.server import running
from tests.client import Client, free_port
from tests.fixture_tree import (
    DOCKER,
    DOCKER_LIST,
    OCI,
    OCI_INDEX,
    Item,
    Layout,
    image,
    items,
    multiple,
    sha256,
)

pytestmark = pytest.mark.integration

SUPPORT = "Determining Support"
MANIFESTS = "Pulling manifests"
BLOBS = "Pulling blobs"
EXISTS = "Checking if content exists in the registry"
TAGS = "Listing Tags"
REFERRERS = "Listing Referrers"
ENABLING = "Enabling the Referrers API"
ERRORS = "Error Codes"
ENDPOINTS = "Endpoints"
CODES = {
    "BLOB_UNKNOWN", "BLOB_UPLOAD_INVALID", "BLOB_UPLOAD_UNKNOWN", "DIGEST_INVALID",
    "MANIFEST_BLOB_UNKNOWN", "MANIFEST_INVALID", "MANIFEST_UNKNOWN", "NAME_INVALID",
    "NAME_UNKNOWN", "SIZE_INVALID", "UNAUTHORIZED", "DENIED", "UNSUPPORTED", "TOOMANYREQUESTS",
}  # fmt: skip
ABSENT = f"sha256:{'0' * 64}"
LONGEST_TAG = "_" + "T" * 127
NAMES = ("pause", "a", "0", "a.b", "a_b", "a__b", "a-b", "a---b", "org/team/my-app", "x" * 200)


@dataclass(frozen=True)
class World:
    """What is served, and who asks."""

    client: Client
    items: tuple[Item, ...]
    parts: dict[str, dict[str, object]]  # of org/multi
    many: tuple[str, ...]  # tags of org/many

    def digest(self, part: str) -> str:
        return str(self.parts[part]["digest"])

    def referrers(self, digest: str, query: str = "") -> list[dict[str, object]]:
        told = json.loads(self.client(f"/v2/org/multi/referrers/{digest}{query}")[2])
        found: list[dict[str, object]] = told["manifests"]
        return found


def _fill(root: Path) -> tuple[dict[str, dict[str, object]], tuple[str, ...]]:
    for number, name in enumerate(NAMES):
        kind = (DOCKER, OCI)[number % 2]
        image(root / name / "1.0", name, kind)
    image(root / "pause" / LONGEST_TAG, "longest")
    image(root / "undeclared" / "1", "no media type", OCI, declare=False)
    listed = Layout(root / "org" / "list")
    listed.name(listed.index(listed.image("x", DOCKER), media_type=DOCKER_LIST), "1")
    parts = multiple(root / "org" / "multi" / "1.0")
    many = Layout(root / "org" / "many")
    entry = many.image("many tags")
    tags = sorted({f"{letter}{number}" for letter in "aBzZ_" for number in range(23)})
    for tag in tags:
        many.name(entry, tag)
    return parts, tuple(tags)


@pytest.fixture(scope="module", params=["plain", "composed"])
def world(
    request: pytest.FixtureRequest, nginx: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """One archive alone, and the same beside three others."""
    scratch = tmp_path_factory.mktemp("conformance")
    root = scratch / "images"
    parts, many = _fill(root)
    repositories = read_tree(root)
    texts = [render(repositories, Options(str(root)))]
    if request.param == "composed":
        for number in range(3):
            other = scratch / f"solution{number}"
            image(other / "pause" / "other", f"solution {number}")
            image(other / f"only{number}" / "1", "x")
            text = render(read_tree(other), Options(str(other), f"solution-{number}"))
            texts.insert(number % 2, text)
    port = free_port()
    with running("\n".join(texts), port, nginx):
        yield World(Client(port), tuple(items(root, repositories)), parts, many)


Case = Callable[[World], None]
CASES: list[tuple[str, str, Case]] = []


def case(clause: str, demand: str) -> Callable[[Case], Case]:
    """Register a case of a clause."""

    def register(function: Case) -> Case:
        CASES.append((clause, demand, function))
        return function

    return register


@case(SUPPORT, "end-1: /v2/ answers 200")
def _(world: World) -> None:
    assert world.client("/v2/")[0] == 200


@case(MANIFESTS, "every manifest comes by tag and by digest: 200, the same bytes")
def _(world: World) -> None:
    for item in world.items:
        for reference in (item.tag, f"sha256:{item.hex}"):
            status, _, body = world.client(f"/v2/{item.name}/manifests/{reference}")
            assert (status, sha256(body)) == (200, item.hex)


@case(MANIFESTS, "Content-Type is the manifest's own type, without parameters")
def _(world: World) -> None:
    kinds = set()
    for item in world.items:
        fields = world.client(f"/v2/{item.name}/manifests/{item.tag}")[1]
        declared = json.loads(item.path.read_bytes()).get("mediaType", OCI)
        assert fields["content-type"] == declared
        kinds.add(declared)
    assert kinds == {DOCKER, DOCKER_LIST, OCI, OCI_INDEX}


@case(MANIFESTS, "Accept lists what the client knows, and never changes the bytes of a digest")
def _(world: World) -> None:
    for accept in ("*/*", OCI, DOCKER, f"{OCI_INDEX}, {OCI};q=0.5", "text/html"):
        path = f"/v2/org/multi/manifests/{world.digest('index')}"
        status, fields, body = world.client(path, Accept=accept)
        assert (status, fields["content-type"]) == (200, OCI_INDEX)
        assert f"sha256:{sha256(body)}" == world.digest("index")


@case(MANIFESTS, "a successful answer has the digest in Docker-Content-Digest")
def _(world: World) -> None:
    for item in world.items:
        fields = world.client(f"/v2/{item.name}/manifests/{item.tag}")[1]
        assert fields["docker-content-digest"] == f"sha256:{item.hex}"


@case(MANIFESTS, "names: all forms of the grammar are served")
def _(world: World) -> None:
    for name in NAMES:
        assert world.client(f"/v2/{name}/manifests/1.0")[0] == 200


@case(MANIFESTS, "tags: up to 128 characters, case matters")
def _(world: World) -> None:
    assert world.client(f"/v2/pause/manifests/{LONGEST_TAG}")[0] == 200
    for other in (LONGEST_TAG.lower(), LONGEST_TAG[:-1], LONGEST_TAG + "T"):
        assert world.client(f"/v2/pause/manifests/{other}")[0] == 404


@case(MANIFESTS, "a manifest that is not in the repository: 404")
def _(world: World) -> None:
    elsewhere = world.digest("amd64")
    for path in (
        "pause/manifests/2.0", f"pause/manifests/{ABSENT}", "nowhere/manifests/1.0",
        f"pause/manifests/{elsewhere}", "aXb/manifests/1.0", "org/manifests/1.0",
        "org/team/manifests/1.0", "pause/manifests/.1", "PAUSE/manifests/1.0",
    ):  # fmt: skip
        assert world.client.error(f"/v2/{path}") == (404, "MANIFEST_UNKNOWN"), path


@case(BLOBS, "every blob of every image: 200, the same bytes")
def _(world: World) -> None:
    for item in world.items:
        for blob in item.blobs:
            status, _, body = world.client(f"/v2/{item.name}/blobs/sha256:{blob.name}")
            assert (status, sha256(body)) == (200, blob.name)


@case(BLOBS, "a successful answer has the digest in Docker-Content-Digest")
def _(world: World) -> None:
    for item in world.items:
        for blob in item.blobs:
            fields = world.client(f"/v2/{item.name}/blobs/sha256:{blob.name}")[1]
            assert fields["docker-content-digest"] == f"sha256:{blob.name}"


@case(BLOBS, "a blob that is not in the repository: 404")
def _(world: World) -> None:
    pause = next(item for item in world.items if item.name == "pause")
    for path in (
        f"pause/blobs/{ABSENT}", f"nowhere/blobs/sha256:{pause.blobs[0].name}",
        f"a.b/blobs/sha256:{pause.blobs[1].name}", f"pause/blobs/{pause.blobs[0].name}",
        f"pause/blobs/sha512:{'0' * 128}", "pause/blobs/1.0",
    ):  # fmt: skip
        assert world.client.error(f"/v2/{path}") == (404, "BLOB_UNKNOWN"), path


@case(BLOBS, "Range as RFC 9110 has it: a part, an end, several, one that is not there")
def _(world: World) -> None:
    pause = next(item for item in world.items if item.name == "pause")
    blob = pause.blobs[1]
    content, path = blob.read_bytes(), f"/v2/pause/blobs/sha256:{blob.name}"
    for wanted, part in (("0-0", content[:1]), ("5-", content[5:]), ("-7", content[-7:])):
        status, fields, body = world.client(path, Range=f"bytes={wanted}")
        assert (status, body) == (206, part)
        start = len(content) - 7 if wanted == "-7" else int(wanted.split("-")[0])
        told = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
        assert fields["content-range"] == told
    status, fields, _ = world.client(path, Range="bytes=0-1,5-6")
    assert status == 206
    assert fields["content-type"].startswith("multipart/byteranges")
    beyond = f"bytes={len(content)}-"
    assert world.client.error(path, Range=beyond) == (416, "SIZE_INVALID")
    assert world.client(path)[1]["accept-ranges"] == "bytes"
    etag = world.client(path)[1]["etag"]
    again = {"Range": "bytes=1-2", "If-Range": etag}
    assert world.client(path, **again)[2] == content[1:3]
    assert world.client(path, **{**again, "If-Range": '"other"'})[2] == content


@case(EXISTS, "HEAD: 200, digest, size, no body")
def _(world: World) -> None:
    for item in world.items:
        asked = [(f"manifests/{item.tag}", item.path), (f"manifests/sha256:{item.hex}", item.path)]
        asked += [(f"blobs/sha256:{blob.name}", blob) for blob in item.blobs]
        for path, file in asked:
            status, fields, body = world.client(f"/v2/{item.name}/{path}", "HEAD")
            content = file.read_bytes()
            assert (status, body) == (200, b"")
            assert fields["content-length"] == str(len(content))
            assert fields["docker-content-digest"] == f"sha256:{sha256(content)}"


@case(EXISTS, "HEAD of what is not there: 404, no body")
def _(world: World) -> None:
    for path in ("pause/manifests/2.0", f"pause/blobs/{ABSENT}", "nowhere/manifests/1"):
        status, _, body = world.client(f"/v2/{path}", "HEAD")
        assert (status, body) == (404, b"")


def tags(world: World, query: str = "", name: str = "org/many") -> tuple[list[str], str]:
    """Tags and what the Link header says."""
    status, fields, body = world.client(f"/v2/{name}/tags/list{query}")
    told = json.loads(body)
    assert (status, told["name"], set(told)) == (200, name, {"name", "tags"})
    assert fields["content-type"] == "application/json"
    found: list[str] = told["tags"]
    return found, fields.get("link", "")


@case(TAGS, "end-8a: 200, the name, all tags, in the order of their bytes")
def _(world: World) -> None:
    for name in {item.name for item in world.items}:
        expected = sorted(item.tag for item in world.items if item.name == name)
        assert tags(world, name=name) == (expected, "")


@case(TAGS, "a repository that is not there: 404")
def _(world: World) -> None:
    for name in ("nowhere", "org", "org/team", "paus", "pause2"):
        assert world.client.error(f"/v2/{name}/tags/list") == (404, "NAME_UNKNOWN")


@case(TAGS, "n: that many from the beginning, fewer only with a Link or when there are no more")
def _(world: World) -> None:
    for number in (1, 2, 9, 10, 11, 99, 100, 114, 115, 116, 999, 1000, 123456):
        found, link = tags(world, f"?n={number}")
        assert tuple(found) == world.many[:number]
        assert bool(link) == (number < len(world.many))


@case(TAGS, "n=0: an empty list and no Link")
def _(world: World) -> None:
    assert tags(world, "?n=0") == ([], "")
    assert tags(world, f"?n=0&last={world.many[3]}") == ([], "")


@case(TAGS, "last: only what is after it, n is optional")
def _(world: World) -> None:
    for place in (0, 1, 50, len(world.many) - 2, len(world.many) - 1):
        found, link = tags(world, f"?last={world.many[place]}")
        assert (tuple(found), link) == (world.many[place + 1 :], "")
        found, _ = tags(world, f"?last={world.many[place]}&n=7")
        assert tuple(found) == world.many[place + 1 : place + 8]


@case(TAGS, "Link follows RFC 5988, rel next, and leads through all tags once")
def _(world: World) -> None:
    for number in (1, 7, 40):
        path, seen = f"/v2/org/many/tags/list?n={number}", []
        for _ in range(200):
            _, fields, body = world.client(path)
            seen += json.loads(body)["tags"]
            if "link" not in fields:
                break
            found = re.fullmatch(r'<(/v2/[^<> ]+)>; rel="next"', fields["link"])
            assert found
            path = found.group(1)
        assert tuple(seen) == world.many


@case(TAGS, "n or last that is neither: an error, never a wrong list")
def _(world: World) -> None:
    for query in ("n=-1", "n=x", "n=1.5", "last=nowhere", "last=3"):
        status, code = world.client.error(f"/v2/org/many/tags/list?{query}")
        assert (status, code) == (400, "UNSUPPORTED")


@case(REFERRERS, "end-12a: 200 and an index with its media type")
def _(world: World) -> None:
    for digest in (world.digest("index"), world.digest("arm64"), ABSENT):
        status, fields, body = world.client(f"/v2/org/multi/referrers/{digest}")
        assert (status, fields["content-type"]) == (200, OCI_INDEX)
        told = json.loads(body)
        assert (told["schemaVersion"], told["mediaType"]) == (2, OCI_INDEX)


@case(REFERRERS, "descriptors: type, digest, size of what has the digest as its subject")
def _(world: World) -> None:
    for subject, referrer in (("index", "signature"), ("amd64", "sbom")):
        (found,) = world.referrers(world.digest(subject))
        assert world.parts[referrer].items() <= found.items()


@case(REFERRERS, "artifactType is the manifest's, or else its config's media type")
def _(world: World) -> None:
    (signature,) = world.referrers(world.digest("index"))
    assert signature["artifactType"] == "application/vnd.example.signature"
    (sbom,) = world.referrers(world.digest("amd64"))
    assert sbom["artifactType"] == "application/vnd.oci.image.config.v1+json"


@case(REFERRERS, "annotations are the manifest's, whatever is written in them")
def _(world: World) -> None:
    content = world.client(f"/v2/org/multi/manifests/{world.digest('sbom')}")[2]
    (sbom,) = world.referrers(world.digest("amd64"))
    assert sbom["annotations"] == json.loads(content)["annotations"]


@case(REFERRERS, "nothing refers to it: an empty list, never 404")
def _(world: World) -> None:
    assert world.referrers(world.digest("arm64")) == []
    assert world.referrers(ABSENT) == []
    status, _, body = world.client(f"/v2/nowhere/referrers/{ABSENT}")
    assert (status, json.loads(body)["manifests"]) == (200, [])


@case(REFERRERS, "a digest of invalid syntax: 400")
def _(world: World) -> None:
    for wrong in ("1.0", "sha256:", "sha256:abc", f"sha256:{'G' * 64}", ABSENT[:-1], "%2e", ":"):
        path = f"/v2/org/multi/referrers/{wrong}"
        assert world.client.error(path) == (400, "DIGEST_INVALID"), wrong


@case(REFERRERS, "a filter that is not applied is not claimed to be")
def _(world: World) -> None:
    query = "?artifactType=application/vnd.example.other"
    path = f"/v2/org/multi/referrers/{world.digest('index')}"
    assert "oci-filters-applied" not in world.client(path + query)[1]
    assert world.referrers(world.digest("index"), query) == world.referrers(world.digest("index"))


@case(ENABLING, "what is in an index with a referrers tag is a referrer too")
def _(world: World) -> None:
    (sbom,) = world.referrers(world.digest("amd64"))
    assert world.client(f"/v2/org/multi/manifests/{sbom['digest']}")[0] == 200


@case(ERRORS, "JSON errors have the one form and codes of the table only")
def _(world: World) -> None:
    for path, method in (
        ("/v2/pause/manifests/2", "GET"), (f"/v2/pause/blobs/{ABSENT}", "GET"),
        ("/v2/x/tags/list", "GET"), ("/v2/pause/referrers/x", "GET"), ("/v2/x", "GET"),
        ("/v2/pause/tags/list?n=x", "GET"), ("/v2/pause/blobs/uploads/", "POST"),
    ):  # fmt: skip
        status, _, body = world.client(path, method)
        assert 400 <= status < 500
        assert set(json.loads(body)) == {"errors"}
        for error in json.loads(body)["errors"]:
            assert error["code"] in CODES
            assert isinstance(error["message"], str)


@case(ENDPOINTS, "end-4 to end-11, whatever writes: 405 and which methods there are")
def _(world: World) -> None:
    for method, path in (
        ("POST", "blobs/uploads/"), ("PATCH", "blobs/uploads/1"), ("PUT", f"blobs/{ABSENT}"),
        ("PUT", "manifests/1.0"), ("DELETE", "manifests/1.0"), ("DELETE", f"blobs/{ABSENT}"),
        ("POST", f"blobs/uploads/?mount={ABSENT}&from=a"),
    ):  # fmt: skip
        for name in ("pause", "nowhere"):
            assert world.client.error(f"/v2/{name}/{path}", method) == (405, "UNSUPPORTED")
            assert world.client(f"/v2/{name}/{path}", method)[1]["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "demanded", CASES, ids=[f"{clause}: {demand}" for clause, demand, _ in CASES]
)
def test_clause(world: World, demanded: tuple[str, str, Case]) -> None:
    demanded[2](world)
