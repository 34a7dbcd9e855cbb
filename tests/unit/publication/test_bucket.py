"""A client and a server that speak S3 over loopback: boto3 and moto."""

import logging
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from moto.server import ThreadedMotoServer

from buildchain.core.errors import ConfigError, ContentError, PlaceError
from buildchain.publication import address, bucket
from tests.unit.publication.world import tree

ISO = "demo-2.4.0.iso"
SECRET = "wJalrhunter2"

# Sockets of clients that are kept open are closed by whoever collects them.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def server():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def client(server, world, monkeypatch, tmp_path):
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    post(server, "reset-auth", b"inf")
    post(server, "reset")
    client = boto3.client("s3")
    client.create_bucket(Bucket="shelf")
    world.to = world.source = "s3://shelf/of/releases"
    return client


def post(server, what, body=b""):
    kind = {"Content-Type": "text/plain"}
    request = urllib.request.Request(f"{server}/moto-api/{what}", body, kind, method="POST")
    urllib.request.urlopen(request, timeout=30).close()


def objects(client):
    found = client.list_objects_v2(Bucket="shelf").get("Contents", ())
    return {
        each["Key"].removeprefix("of/releases/"): client.get_object(
            Bucket="shelf", Key=each["Key"]
        )["Body"].read()
        for each in found
    }


def dates(client):
    found = client.list_objects_v2(Bucket="shelf")["Contents"]
    return {each["Key"]: (each["LastModified"], each["ETag"]) for each in found}


def test_publish_promote_retain_and_fetch(world, client):
    world.released("2.4.0")
    found = objects(client)
    assert {n.partition("/")[2]: c for n, c in found.items() if n[:2] == "2."} == tree(world.build)
    world.publish()
    assert objects(client) == found, "nothing changed"
    world.publisher().promote("2.4.0", "stable")
    assert world.fetch("stable") == "2.4.0"
    assert tree(world.got) == tree(world.build)
    world.released("2.4.1")
    world.release("2.4.2")
    world.publish("stable", keep=1)
    assert not [name for name in objects(client) if name.startswith("2.4.0/")]
    assert world.index().withdrawn == ("2.4.0",)
    assert len([name for name in objects(client) if name.startswith("signatures/")]) == 2


def test_the_root_of_a_bucket_is_a_place(world, client):
    world.to = world.source = "s3://shelf"
    world.released("2.4.0")
    assert world.fetch() == "2.4.0"


def test_a_fetch_goes_on_where_it_was(world, client):
    world.released("2.4.0")
    part = world.folder / ".got.part"
    part.mkdir()
    (part / ISO).write_bytes((world.build / ISO).read_bytes()[:1234])
    assert world.fetch() == "2.4.0"
    assert tree(world.got) == tree(world.build)


def test_large_files_go_in_parts_and_parts_of_an_interrupted_upload_go(world, client):
    content = bytes(range(256)) * (9 << 12)  # 9 MiB
    key = "of/releases/2.4.0/" + ISO
    client.create_multipart_upload(Bucket="shelf", Key=key)
    other = client.create_multipart_upload(Bucket="shelf", Key="of/releases/other")["UploadId"]
    world.released("2.4.0", **{ISO: content})
    left = client.list_multipart_uploads(Bucket="shelf")["Uploads"]
    assert [upload["UploadId"] for upload in left] == [other]
    assert client.head_object(Bucket="shelf", Key=key)["ETag"].endswith('-2"')
    assert world.fetch() == "2.4.0"


def test_only_what_is_missing_or_damaged_is_sent(world, client):
    world.released("2.4.0")
    before = dates(client)
    damaged, gone = "of/releases/2.4.0/release.json", f"of/releases/2.4.0/{ISO}"
    size = client.head_object(Bucket="shelf", Key=damaged)["ContentLength"]
    client.put_object(Bucket="shelf", Key=damaged, Body=b"x" * size)
    client.delete_object(Bucket="shelf", Key=gone)
    sent = []
    client_of = bucket._client

    def counting():
        made = client_of()
        made.meta.events.register(
            "before-call.s3.PutObject",
            lambda params, **_: sent.append(params["url_path"]),
        )
        return made

    bucket._client = counting
    try:
        world.publish()
    finally:
        bucket._client = client_of
    assert sorted(path.rpartition("/")[2] for path in sent) == [ISO, "release.json"]
    assert {key: etag for key, (_, etag) in dates(client).items()} == {
        key: etag for key, (_, etag) in before.items()
    }


def test_another_release_of_the_same_version_is_refused(world, client):
    world.released("2.4.0")
    before = objects(client)
    world.release("2.4.0", **{ISO: b"other"})
    with pytest.raises(ContentError, match=r"has another 2\.4\.0"):
        world.publish()
    assert objects(client) == before


def no_bucket(world, server, monkeypatch):
    world.to = "s3://nothing-here/x"


def strict(world, server, monkeypatch):
    post(server, "reset-auth", b"0")


def no_login(world, server, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)


def no_profile(world, server, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "gone")


def nobody(world, server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(bucket, "ATTEMPTS", 1)


def no_address(world, server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "hunter2")


def not_tls(world, server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.replace("http:", "https:"))
    monkeypatch.setattr(bucket, "ATTEMPTS", 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_bucket, "there is no such bucket"),
        (strict, "the login is not let in"),
        (no_login, "there is no login for S3 (NoCredentialsError)"),
        (no_profile, "there is no login for S3 (ProfileNotFound)"),
        (nobody, "no answer (EndpointConnectionError)"),
        (no_address, "the settings of S3 clients on this machine are no good"),
        (not_tls, "cannot be believed to be who it says (SSLError)"),
    ],
)
def test_what_is_wrong_with_the_server(world, client, server, monkeypatch, recorded, change, said):
    world.release("2.4.0")
    change(world, server, monkeypatch)
    with pytest.raises(PlaceError) as caught:
        world.publish()
    assert said in caught.value.reason
    assert caught.value.solution
    for text in (caught.value.friendly(), *recorded.lines):
        assert SECRET not in text
        assert "hunter2" not in text


class Moody(BaseHTTPRequestHandler):
    """An S3 server that lets nobody put anything."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        if "uploads" in self.path:
            self.answer(200, "<ListMultipartUploadsResult></ListMultipartUploadsResult>")
        elif "list-type" in self.path:
            self.answer(200, "<ListBucketResult></ListBucketResult>")
        else:
            self.answer(404, "<Error><Code>NoSuchKey</Code></Error>")

    def do_PUT(self):
        if self.server.code is None:
            self.close_connection = True
            return
        self.rfile.read(int(self.headers["Content-Length"]))
        status = 403 if self.server.code == "AccessDenied" else 400
        self.answer(status, f"<Error><Code>{self.server.code}</Code></Error>")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("AccessDenied", "the login is not let in (AccessDenied)"),
        ("QuotaExceeded", "the server says QuotaExceeded"),
        ("NoSuchBucket", "there is no such bucket"),
        (None, "no answer ("),
    ],
)
def test_an_upload_that_fails(world, client, monkeypatch, code, said):
    moody = ThreadingHTTPServer(("127.0.0.1", 0), Moody)
    moody.code, moody.handle_error = code, lambda *_: None
    thread = threading.Thread(target=moody.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{moody.server_port}")
    monkeypatch.setattr(bucket, "ATTEMPTS", 1)
    world.release("2.4.0")
    try:
        with pytest.raises(PlaceError) as caught:
            world.publish()
    finally:
        moody.shutdown()
        moody.server_close()
        thread.join()
    assert said in caught.value.reason
    assert SECRET not in caught.value.friendly()


def test_what_is_not_there_is_not_held(world, client):
    world.released("2.4.0")
    assert not world.publisher().target.holds("2.4.0/gone", world.build / ISO, "")


@pytest.mark.parametrize(
    "text", ["s3://", "s3://AKIA:hunter2@shelf/x", "s3://UPPER", "s3://shelf//x", "s3://shelf/a b"]
)
def test_what_is_no_bucket(text, tmp_path):
    with pytest.raises(ConfigError, match="address of the bucket") as caught:
        address.target(text, tmp_path)
    assert "hunter2" not in caught.value.friendly()


def test_equal_names_at_two_servers_are_two_places(client, monkeypatch, tmp_path, server):
    one = address.target("s3://shelf/x", tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://me:hunter2@elsewhere.example:9000")
    two = address.target("s3://shelf/x", tmp_path)
    assert one.name == f"s3://shelf/x of {server.removeprefix('http://')}"
    assert two.name == "s3://shelf/x of elsewhere.example:9000"
