"""The generated configuration in a real nginx, asked by http.client and by skopeo."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from static_container_registry import Options, Parts, ToolError, read_tree, render
from static_container_registry.server import running
from tests.client import Client, free_port
from tests.fixture_tree import DOCKER, OCI, OCI_INDEX, image, items, multiple, sha256
from tests.test_configuration import repository

pytestmark = pytest.mark.integration


@contextmanager
def serving(nginx: str, *configurations: str) -> Iterator[Client]:
    port = free_port()
    with running("\n".join(configurations), port, nginx):
        yield Client(port)


@pytest.fixture
def client(tree: Path, nginx: str) -> Iterator[Client]:
    with serving(nginx, render(read_tree(tree), Options(str(tree)))) as client:
        yield client


def rendered(text: str, repository: str, root: Path) -> str:
    """What whoever installs a Solution does to its file."""
    return text.replace("{{ repository }}", repository).replace("{{ registry_root }}", str(root))


@dataclass(frozen=True)
class Multiple:
    """A layout with an index, and what refers to its parts."""

    client: Client
    folder: Path
    parts: dict[str, dict[str, object]]

    def content(self, part: str) -> bytes:
        digest = str(self.parts[part]["digest"]).removeprefix("sha256:")
        return (self.folder / "blobs" / "sha256" / digest).read_bytes()

    def referrers(self, part: str) -> list[dict[str, object]]:
        status, fields, body = self.client(f"/v2/org/multi/referrers/{self.parts[part]['digest']}")
        assert (status, fields["content-type"]) == (200, OCI_INDEX)
        assert "oci-filters-applied" not in fields
        told = json.loads(body)
        assert {key: told[key] for key in ("schemaVersion", "mediaType")} == {
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
        }
        found: list[dict[str, object]] = told["manifests"]
        return found


@pytest.fixture
def several(tmp_path: Path, nginx: str) -> Iterator[Multiple]:
    root = tmp_path / "images"
    parts = multiple(root / "org" / "multi" / "1.0")
    image(root / "pause" / "3.2", "beside it")
    with serving(nginx, render(read_tree(root), Options(str(root)))) as client:
        yield Multiple(client, root / "org" / "multi" / "1.0", parts)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("part", ["index", "amd64", "arm64", "signature", "sbom"])
def test_index_and_what_is_below(several: Multiple, part: str, method: str) -> None:
    digest, content = str(several.parts[part]["digest"]), several.content(part)
    references = {"index": ("1.0", "latest"), "sbom": (f"sha256-{'0' * 64}.sbom",)}.get(part, ())
    for reference in (digest, *references):
        status, fields, body = several.client(f"/v2/org/multi/manifests/{reference}", method)
        assert (status, fields["docker-content-digest"]) == (200, digest)
        assert fields["content-type"] == (OCI_INDEX if part == "index" else OCI)
        assert body == (content if method == "GET" else b"")


def test_referrers(several: Multiple) -> None:
    (signature,) = several.referrers("index")
    assert signature == {
        **several.parts["signature"],
        "artifactType": "application/vnd.example.signature",
    }
    (sbom,) = several.referrers("amd64")
    content = json.loads(several.content("sbom"))
    assert sbom == {
        **several.parts["sbom"],
        "artifactType": content["config"]["mediaType"],
        "annotations": content["annotations"],
    }
    assert several.referrers("arm64") == []
    status, fields, body = several.client(f"/v2/org/multi/referrers/{ZEROS}", "HEAD")
    assert (status, fields["content-type"], body) == (200, OCI_INDEX, b"")
    for wrong in ("sha256:0", "tag", f"sha256:{'A' * 64}", "%20", f"{ZEROS}0"):
        for name in ("org/multi", "other"):
            path = f"/v2/{name}/referrers/{wrong}"
            assert several.client.error(path) == (400, "DIGEST_INVALID")
    assert several.client(f"/v2/org/multi/referrers/sha512:{'0' * 128}")[0] == 200


def test_pages(client: Client) -> None:
    everything = ["1.0", "2.0-rc.1", "latest"]
    for number in (1, 2, 3, 4, 999, 12345, "007"):
        found, _ = follow(client, f"/v2/a.b/tags/list?n={number}", "tags")
        assert found == everything
    for query, tags, more in (
        ("n=0", [], None),
        ("n=0&last=1.0", [], None),
        ("last=1.0", everything[1:], None),
        ("last=latest", [], None),
        ("n=1&last=1.0", everything[1:2], "n=1&last=2.0-rc.1"),
        ("n=2", everything[:2], "n=2&last=2.0-rc.1"),
        ("n=3", everything, None),
    ):
        status, fields, body = client(f"/v2/a.b/tags/list?{query}")
        assert (status, json.loads(body)) == (200, {"name": "a.b", "tags": tags}), query
        link = f'</v2/a.b/tags/list?{more}>; rel="next"' if more else None
        assert fields.get("link") == link, query
    for query in ("n=x", "n=-1", "last=1", "last=1X0", "last=%22", 'last=1.0",'):
        assert client.error(f"/v2/a.b/tags/list?{query}") == (400, "UNSUPPORTED"), query
    assert follow(client, "/v2/_catalog?n=1", "repositories")[0] == [
        "a.b",
        "org",
        "org/team/my-app",
        "pause",
    ]


def test_damage_on_the_disk(client: Client, tree: Path) -> None:
    *_, pause = items(tree, read_tree(tree))
    pause.path.unlink()
    pause.blobs[0].unlink()
    pause.blobs[1].chmod(0)
    assert client.error("/v2/pause/manifests/3.2") == (404, "MANIFEST_UNKNOWN")
    path = "/v2/pause/blobs/sha256:"
    assert client.error(path + pause.blobs[0].name) == (404, "BLOB_UNKNOWN")
    if os.geteuid() != 0:
        assert client.error(path + pause.blobs[1].name) == (403, "DENIED")


@pytest.mark.parametrize("path", ["/v2", "/v2/"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_base(client: Client, path: str, method: str) -> None:
    status, fields, body = client(path, method)
    assert (status, fields["docker-distribution-api-version"]) == (200, "registry/2.0")
    assert fields["content-type"] == "application/json"
    assert body == (b"{}" if method == "GET" else b"")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_manifests_and_blobs(client: Client, tree: Path, method: str) -> None:
    def expect(path: str, content: bytes, media_type: str, digest: str) -> None:
        status, fields, body = client(path, method)
        assert status == 200, path
        assert fields["content-type"] == media_type
        assert fields["docker-content-digest"] == f"sha256:{digest}"
        assert fields["docker-distribution-api-version"] == "registry/2.0"
        assert fields["content-length"] == str(len(content))
        assert body == (content if method == "GET" else b"")

    for item in items(tree, read_tree(tree)):
        for reference in (item.tag, f"sha256:{item.hex}"):
            path = f"/v2/{item.name}/manifests/{reference}"
            expect(path, item.path.read_bytes(), item.media_type, item.hex)
        for blob in item.blobs:
            path = f"/v2/{item.name}/blobs/sha256:{blob.name}"
            expect(path, blob.read_bytes(), "application/octet-stream", blob.name)


def test_range(client: Client, tree: Path) -> None:
    item = next(items(tree, read_tree(tree)))
    blob = item.blobs[1]
    content = blob.read_bytes()
    path = f"/v2/{item.name}/blobs/sha256:{blob.name}"
    status, fields, body = client(path, Range="bytes=3-9")
    assert (status, body) == (206, content[3:10])
    assert fields["content-range"] == f"bytes 3-9/{len(content)}"
    assert client(path, Range="bytes=-4")[2] == content[-4:]
    assert client.error(path, Range=f"bytes={len(content)}-") == (416, "SIZE_INVALID")


def test_tags_and_catalog(client: Client) -> None:
    tags = json.loads(client("/v2/a.b/tags/list")[2])
    assert tags == {"name": "a.b", "tags": ["1.0", "2.0-rc.1", "latest"]}
    nested = json.loads(client("/v2/org/team/my-app/tags/list")[2])
    assert nested == {"name": "org/team/my-app", "tags": ["v1", "v2"]}
    status, fields, body = client("/v2/_catalog")
    assert (status, fields["content-type"]) == (200, "application/json")
    assert json.loads(body) == {"repositories": ["a.b", "org", "org/team/my-app", "pause"]}


ZEROS = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v2/pause/manifests/nope", "MANIFEST_UNKNOWN"),
        ("/v2/pause/manifests/", "MANIFEST_UNKNOWN"),
        (f"/v2/pause/manifests/{ZEROS}", "MANIFEST_UNKNOWN"),
        ("/v2/pause/manifests/3.2x", "MANIFEST_UNKNOWN"),
        ("/v2/pause/manifests/3.2%3Fx", "MANIFEST_UNKNOWN"),
        ("/v2/pause/manifests/3.2%0a", "MANIFEST_UNKNOWN"),
        ("/v2/pause/manifests/3.2%20", "MANIFEST_UNKNOWN"),
        ("/v2/pause/manifests/3.2%25", "MANIFEST_UNKNOWN"),
        ("/v2/pause/manifests/%2533.2", "MANIFEST_UNKNOWN"),
        ("/v2/pause/manifests/3X2", "MANIFEST_UNKNOWN"),
        ("/v2/aXb/manifests/1.0", "MANIFEST_UNKNOWN"),
        ("/v2/x/v2/pause/manifests/3.2", "MANIFEST_UNKNOWN"),
        ("/v2/other/manifests/1", "MANIFEST_UNKNOWN"),
        (f"/v2/pause/blobs/{ZEROS}", "BLOB_UNKNOWN"),
        ("/v2/pause/blobs/manifest.json", "BLOB_UNKNOWN"),
        (f"/v2/other/blobs/{ZEROS}", "BLOB_UNKNOWN"),
        ("/v2/other/tags/list", "NAME_UNKNOWN"),
        ("/v2/org/team/tags/list", "NAME_UNKNOWN"),
        ("/v2/pause/tags/list2", "NAME_UNKNOWN"),
        ("/v2/pause/manifests/3.2;x", "MANIFEST_UNKNOWN"),
        ("/v2/pause/manifests/3.2%20x", "MANIFEST_UNKNOWN"),
        ("/v2/%0a", "UNSUPPORTED"),
    ],
)
def test_unknown(client: Client, path: str, code: str) -> None:
    assert client.error(path) == (404, code)
    status, fields, body = client(path, "HEAD")
    assert (status, body) == (404, b"")
    assert fields["docker-distribution-api-version"] == "registry/2.0"


def test_digests_are_anchored_and_blobs_stay_with_their_name(client: Client, tree: Path) -> None:
    dotted, *_, pause = items(tree, read_tree(tree))
    blob = dotted.blobs[0].name
    for path in (
        f"/v2/a.b/blobs/sha256:{blob}zzz",
        f"/v2/a.b/blobs/sha256:{blob.upper()}",
        f"/v2/a.b/blobs/sha256:{blob[:-1]}",
        f"/v2/a.b/blobs/{blob}",
        f"/v2/aXb/blobs/sha256:{blob}",
        f"/v2/a.b/blobs/sha256:{pause.blobs[1].name}",
    ):
        assert client.error(path) == (404, "BLOB_UNKNOWN"), path
    path = f"/x/v2/a.b/blobs/sha256:{blob}"
    assert client(path)[0] == 404


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        "/v2/",
        "/v2/_catalog",
        "/v2/pause/manifests/3.2",
        "/v2/pause/manifests/new",
        "/v2/pause/tags/list",
        f"/v2/pause/blobs/{ZEROS}",
        "/v2/pause/blobs/uploads/",
        "/v2/new/blobs/uploads/1",
    ],
)
def test_writes(client: Client, method: str, path: str) -> None:
    assert client.error(path, method) == (405, "UNSUPPORTED")


def test_files_gone_from_the_disk(client: Client, tree: Path) -> None:
    pause = read_tree(tree)[-1]
    for path in (tree / "pause/3.2").iterdir():
        path.unlink()
    assert client.error("/v2/pause/manifests/3.2") == (404, "MANIFEST_UNKNOWN")
    blob = f"/v2/pause/blobs/sha256:{pause.blobs[0].hex}"
    assert client.error(blob) == (404, "BLOB_UNKNOWN")


def test_settings_of_the_server_do_not_change_content(tree: Path, nginx: str) -> None:
    server = """
        charset utf-8; charset_types *; gzip on; gzip_types *; gzip_min_length 1;
        location / { return 200 elsewhere; }
        location ~ /manifests/ { return 500; }
        set $registry_root %s;
    """
    text = render(read_tree(tree), Options("$registry_root"))
    with serving(nginx, server % tree, text) as client:
        status, fields, body = client("/v2/pause/manifests/3.2", **{"Accept-Encoding": "gzip"})
        assert (status, fields["content-type"]) == (200, DOCKER)
        assert body == (tree / "pause/3.2/manifest.json").read_bytes()
        assert "content-encoding" not in fields
        assert client("/packages/x", "POST")[2] == b"elsewhere"


@pytest.fixture
def archives(tmp_path: Path) -> list[Path]:
    """MetalK8s and three Solutions; all ship app:1.0, with different content."""
    roots = [tmp_path / name / "images" for name in ("metalk8s-2.4", "a-1.0", "b-1.0", "c-1.0")]
    for root in roots:
        image(root / "app" / "1.0", f"app of {root.parent.name}")
        image(root / root.parent.name.split("-")[0] / "1", "the same everywhere", OCI)
    return roots


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("parts", [Parts.ALL, Parts.ARCHIVE])
def test_archives_compose(archives: list[Path], nginx: str, parts: Parts, seed: int) -> None:
    texts = [
        rendered(
            render(read_tree(root), Options("{{ registry_root }}", "{{ repository }}", parts)),
            root.parent.name,
            root,
        )
        for root in archives
    ]
    texts.append(render((), Options(parts=Parts.CONSTANTS)))
    random.Random(seed).shuffle(texts)
    with serving(nginx, *texts) as client:
        for root in archives:
            content = (root / "app/1.0/manifest.json").read_bytes()
            assert client(f"/v2/{root.parent.name}/app/manifests/1.0")[2] == content
            tags = json.loads(client(f"/v2/{root.parent.name}/app/tags/list")[2])
            assert tags == {"name": f"{root.parent.name}/app", "tags": ["1.0"]}
        assert client("/v2/")[0] == 200
        names = json.loads(client("/v2/_catalog")[2])["repositories"]
        assert sorted(names) == sorted(
            f"{root.parent.name}/{name}"
            for root in archives
            for name in ("app", root.parent.name.split("-")[0])
        )
        assert client.error("/v2/app/manifests/1.0") == (404, "MANIFEST_UNKNOWN")
        assert client.error("/v2/metalk8s-2X4/app/manifests/1.0") == (404, "MANIFEST_UNKNOWN")
        assert client.error("/v2/a-1.0/none/tags/list") == (404, "NAME_UNKNOWN")
        assert client.error("/v2/a-1.0/app/tags/list", "POST") == (405, "UNSUPPORTED")


def test_authors_who_forgot_everything(archives: list[Path], nginx: str) -> None:
    """Bare names, constants everywhere: all images are there, the first has a shared name."""
    texts = [render(read_tree(root), Options("{{ registry_root }}")) for root in archives]
    placed = [rendered(text, "unused", root) for text, root in zip(texts, archives)]
    with serving(nginx, *placed, render((), Options(parts=Parts.CONSTANTS))) as client:
        first = (archives[0] / "app/1.0/manifest.json").read_bytes()
        assert client("/v2/app/manifests/1.0")[2] == first
        for name in ("metalk8s", "a", "b", "c"):
            assert client(f"/v2/{name}/manifests/1")[0] == 200


def test_one_tree_in_two_archives(archives: list[Path], nginx: str) -> None:
    """Byte for byte the same file, installed twice, with and without a prefix."""
    root = archives[0]
    for prefix in ("", "{{ repository }}"):
        text = render(read_tree(root), Options("{{ registry_root }}", prefix))
        alias = root.parent.parent / f"alias{len(prefix)}"
        alias.symlink_to(root)
        with serving(nginx, rendered(text, "a.b", root), rendered(text, "axb", alias)) as client:
            for name in ("a.b/app", "axb/app") if prefix else ("app",):
                assert client(f"/v2/{name}/manifests/1.0")[0] == 200


def test_same_prefix_different_images(archives: list[Path], nginx: str) -> None:
    texts = [render(read_tree(root), Options(str(root), "apps")) for root in archives]
    with serving(nginx, *texts) as client:
        for name in ("app", "a", "b", "c", "metalk8s"):
            assert client(f"/v2/apps/{name}/tags/list")[0] == 200


def test_constants_alone(nginx: str) -> None:
    text = render((), Options(parts=Parts.CONSTANTS))
    with serving(nginx, text, text) as client:
        assert json.loads(client("/v2/_catalog")[2]) == {"repositories": []}
        assert client.error("/v2/a/manifests/1") == (404, "MANIFEST_UNKNOWN")


def test_two_thousand_images(tmp_path: Path, nginx: str) -> None:
    many = [f"v{i}" for i in range(2000)]
    repositories = [repository(f"team{i % 7}/app-{i}.x", f"{i}.0") for i in range(2000)]
    repositories.append(repository("many", *many))
    for document in (one for item in repositories for one in item.documents):
        file = tmp_path / document.path
        file.parent.mkdir(parents=True)
        file.write_text(document.path)
    with serving(nginx, render(repositories, Options(str(tmp_path), "prefix"))) as client:
        for item in [*repositories[::97], repositories[-1]]:
            for tag, document in list(zip(item.tags, item.documents))[::97]:
                for reference in (tag.name, f"sha256:{tag.hex}"):
                    path = f"/v2/prefix/{item.name}/manifests/{reference}"
                    assert client(path)[2].decode() == document.path
        catalog = json.loads(client("/v2/_catalog")[2])["repositories"]
        assert catalog == sorted(f"prefix/{item.name}" for item in repositories)
        assert follow(client, "/v2/_catalog?n=600", "repositories") == (catalog, 4)
        assert follow(client, "/v2/prefix/many/tags/list?n=5000", "tags") == (sorted(many), 3)


def follow(client: Client, path: str, key: str) -> tuple[list[str], int]:
    """All of a list, page by page, and how many pages there were."""
    found: list[str] = []
    for pages in range(1, 10_000):
        status, fields, body = client(path)
        assert status == 200
        found += json.loads(body)[key]
        link = re.fullmatch('<([^>]*)>; rel="next"', fields.get("link", ""))
        if link is None:
            return found, pages
        path = link.group(1)
    raise AssertionError("no end")


@pytest.mark.parametrize("by", ["tag", "digest"])
def test_skopeo_pulls(client: Client, tree: Path, tmp_path: Path, skopeo: str, by: str) -> None:
    for index, item in enumerate(items(tree, read_tree(tree))):
        reference = f":{item.tag}" if by == "tag" else f"@sha256:{item.hex}"
        source = f"docker://127.0.0.1:{client.port}/{item.name}{reference}"
        target = tmp_path / f"pulled{index}"
        _skopeo(
            skopeo, "copy", "--preserve-digests", "--src-tls-verify=false", source, f"dir:{target}"
        )
        pulled = (target / "manifest.json").read_bytes()
        assert sha256(pulled) == item.hex
        assert all((target / blob.name).read_bytes() == blob.read_bytes() for blob in item.blobs)


def test_skopeo_inspects(client: Client, tree: Path, skopeo: str) -> None:
    for item in items(tree, read_tree(tree)):
        source = f"docker://127.0.0.1:{client.port}/{item.name}:{item.tag}"
        found = json.loads(_skopeo(skopeo, "inspect", "--tls-verify=false", source))
        assert found["Digest"] == f"sha256:{item.hex}"
        assert item.tag in found["RepoTags"]


def _skopeo(skopeo: str, *arguments: str) -> bytes:
    done = subprocess.run(
        [skopeo, "--insecure-policy", *arguments], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_serve(tree: Path, tmp_path: Path, nginx: str, number: signal.Signals) -> None:
    port = free_port()
    # A shell that starts the tests in the background makes them ignore SIGINT.
    argv = ["env", "--default-signal", sys.executable, "-m", "static_container_registry"]
    argv += ["serve", str(tree), "--port", str(port), "--nginx", nginx]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        assert f"http://127.0.0.1:{port}/v2/".encode() in process.stdout.readline()
        with urlopen(f"http://127.0.0.1:{port}/v2/pause/tags/list", timeout=10) as response:
            assert json.load(response)["tags"] == ["3.2"]
    finally:
        process.send_signal(number)
        process.communicate(timeout=20)
    assert process.returncode == 0
    assert list((tmp_path / "temporary").iterdir()) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_taken_port_and_missing_nginx(nginx: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with (
            pytest.raises(ToolError, match="does not serve"),
            running("", listener.getsockname()[1], nginx),
        ):
            pass
    with pytest.raises(ToolError, match="not found"), running("", 1, "no-such-nginx"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="is the case of all other tests then")
def test_without_privileges(nginx: str) -> None:
    code = (
        "import encodings.idna, os, sys\n"
        "from static_container_registry.server import running\n"
        "from static_container_registry import Options, Parts, render\n"
        "from urllib.request import urlopen\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "with running(render((), Options(parts=Parts.CONSTANTS)), int(sys.argv[1]), sys.argv[2]):\n"
        "    print(urlopen(f'http://127.0.0.1:{sys.argv[1]}/v2/').read().decode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(free_port()), nginx],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.stdout == b"{}\n", done.stderr.decode()
