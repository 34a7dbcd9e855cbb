"""The generated configuration in a real nginx, asked by http.client and by skopeo."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.request import urlopen

import pytest

from static_container_registry import Image, Options, Parts, ToolError, read_tree, render
from static_container_registry.server import running
from tests.fixture_tree import DOCKER, OCI, image, sha256

pytestmark = pytest.mark.integration

Answer = tuple[int, dict[str, str], bytes]


class Client:
    """One request per connection, to one port."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        fields = {key.lower(): value for key, value in response.getheaders()}
        body = response.read()
        connection.close()
        return response.status, fields, body

    def error(self, path: str, method: str = "GET") -> tuple[int, str]:
        """The status and code of an error, after checking the form of its body."""
        status, fields, body = self(path, method)
        assert fields["content-type"] == "application/json"
        assert fields["docker-distribution-api-version"] == "registry/2.0"
        (only,) = json.loads(body)["errors"]
        return status, only["code"]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


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

    for item in read_tree(tree):
        content = (tree / item.directory / "manifest.json").read_bytes()
        for reference in (item.tag, f"sha256:{item.manifest_hex}"):
            path = f"/v2/{item.name}/manifests/{reference}"
            expect(path, content, item.media_type, item.manifest_hex)
        for blob in item.blobs:
            path = f"/v2/{item.name}/blobs/sha256:{blob.hex}"
            content = (tree / item.directory / blob.hex).read_bytes()
            expect(path, content, "application/octet-stream", blob.hex)


def test_range(client: Client, tree: Path) -> None:
    item = read_tree(tree)[0]
    blob = item.blobs[1]
    content = (tree / item.directory / blob.hex).read_bytes()
    path = f"/v2/{item.name}/blobs/sha256:{blob.hex}"
    status, fields, body = client(path, Range="bytes=3-9")
    assert (status, body) == (206, content[3:10])
    assert fields["content-range"] == f"bytes 3-9/{len(content)}"
    assert client(path, Range="bytes=-4")[2] == content[-4:]
    assert client(path, Range=f"bytes={len(content)}-")[0] == 416


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
        (f"/v2/pause/referrers/{ZEROS}", "UNSUPPORTED"),
        ("/v2/%0a", "UNSUPPORTED"),
    ],
)
def test_unknown(client: Client, path: str, code: str) -> None:
    assert client.error(path) == (404, code)
    status, fields, body = client(path, "HEAD")
    assert (status, body) == (404, b"")
    assert fields["docker-distribution-api-version"] == "registry/2.0"


def test_digests_are_anchored_and_blobs_stay_with_their_name(client: Client, tree: Path) -> None:
    dotted, *_, pause = read_tree(tree)
    blob = dotted.blobs[0].hex
    for path in (
        f"/v2/a.b/blobs/sha256:{blob}zzz",
        f"/v2/a.b/blobs/sha256:{blob.upper()}",
        f"/v2/a.b/blobs/sha256:{blob[:-1]}",
        f"/v2/a.b/blobs/{blob}",
        f"/v2/aXb/blobs/sha256:{blob}",
        f"/v2/a.b/blobs/sha256:{pause.blobs[1].hex}",
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
    images = [
        Image(f"team{i % 7}/app-{i}.x", f"{i}.0", DOCKER, sha256(b"%d" % i), ())
        for i in range(2000)
    ]
    images += [Image("many", f"v{i}", DOCKER, sha256(b"many"), ()) for i in range(2000)]
    for item in images:
        (tmp_path / item.directory).mkdir(parents=True)
        (tmp_path / item.directory / "manifest.json").write_text(item.directory)
    with serving(nginx, render(images, Options(str(tmp_path), "prefix"))) as client:
        for item in images[::97]:
            path = f"/v2/prefix/{item.name}/manifests/{item.tag}"
            assert client(path)[2].decode() == item.directory
        catalog = json.loads(client("/v2/_catalog")[2])["repositories"]
        assert catalog == sorted({f"prefix/{item.name}" for item in images})
        tags = json.loads(client("/v2/prefix/many/tags/list")[2])["tags"]
        assert tags == sorted(f"v{i}" for i in range(2000))


@pytest.mark.parametrize("by", ["tag", "digest"])
def test_skopeo_pulls(client: Client, tree: Path, tmp_path: Path, skopeo: str, by: str) -> None:
    for index, item in enumerate(read_tree(tree)):
        reference = f":{item.tag}" if by == "tag" else f"@sha256:{item.manifest_hex}"
        source = f"docker://127.0.0.1:{client.port}/{item.name}{reference}"
        target = tmp_path / f"pulled{index}"
        _skopeo(
            skopeo, "copy", "--preserve-digests", "--src-tls-verify=false", source, f"dir:{target}"
        )
        pulled = (target / "manifest.json").read_bytes()
        assert sha256(pulled) == item.manifest_hex
        assert all(sha256((target / blob.hex).read_bytes()) == blob.hex for blob in item.blobs)


def test_skopeo_inspects(client: Client, tree: Path, skopeo: str) -> None:
    for item in read_tree(tree):
        source = f"docker://127.0.0.1:{client.port}/{item.name}:{item.tag}"
        found = json.loads(_skopeo(skopeo, "inspect", "--tls-verify=false", source))
        assert found["Digest"] == f"sha256:{item.manifest_hex}"
        assert item.tag in found["RepoTags"]


def _skopeo(skopeo: str, *arguments: str) -> bytes:
    done = subprocess.run(
        [skopeo, "--insecure-policy", *arguments], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve(tree: Path, tmp_path: Path, nginx: str, number: signal.Signals) -> None:
    port = free_port()
    argv = [sys.executable, "-m", "static_container_registry", "serve", str(tree)]
    argv += ["--port", str(port), "--nginx", nginx]
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
