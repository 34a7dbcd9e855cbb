import json
import random
import shutil
import types

import pytest

from buildchain.core import reference
from buildchain.core.errors import FetchError, SpaceError
from buildchain.store import jobs, manifest, partial
from buildchain.store.sources import Mirror, parse_mirror
from buildchain.store.tree import Wanted
from tests.registries import faulty, image_set
from tests.registries.site import Site


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(jobs, "FIRST", 0.01)
    monkeypatch.setattr(jobs, "LONGEST", 0.05)
    monkeypatch.setattr(jobs, "TICK", 0.05)


@pytest.fixture(scope="module")
def content():
    """Return the made-up set, four thousand times smaller."""
    return list(image_set.content(1 / 4000))


@pytest.fixture
def served(content):
    with faulty.serving() as found:
        for image, document, blobs in content:
            found.add(image.name, image.tag, document, blobs)
        yield found


@pytest.fixture
def site(served, tmp_path):
    return Site(tmp_path, served)


def test_each_blob_once(site, served):
    pulled = site.pull()
    site.check(pulled)
    assert [image.wanted for image in pulled] == site.wanted()
    assert served.blob_bytes == sum(len(content) for content in served.blobs.values())
    assert served.count("GET", "/blobs/") == len(served.blobs)


def test_again_only_tags_are_asked_for(site, served):
    site.pull()
    served.requests.clear()
    site.check(site.pull())
    assert {request.method for request in served.requests} == {"HEAD"}
    assert len(served.requests) == 25


def test_again_without_the_registry(site, served, recorded):
    site.pull()
    served.fault = lambda _request: "early-reset"
    site.check(site.pull())
    assert len(recorded.notes) == 25
    assert "is here; its tag is not compared" in recorded.notes[0]


def test_progress_ends_at_the_total_and_never_goes_back(served, tmp_path, recorded):
    served.pace = 1e6
    for name in [n for n, t in served.manifests if t == "1.0" and n != "org/daemon-0"]:
        del served.manifests[name, "1.0"]
    Site(tmp_path, served).pull()
    done = [event.done for event in recorded.progress]
    assert done == sorted(done)


@pytest.mark.parametrize("fault", faulty.FAULTS)
@pytest.mark.parametrize("part", ["/blobs/", "/manifests/"])
def test_one_fault_at_each_request(site, served, fault, part):
    """Whatever goes wrong once, all arrives right."""
    seen = set()

    def strike(request):
        key = (request.method, request.path)
        if part not in request.path or key in seen:
            return ""
        seen.add(key)
        return fault

    served.fault, served.elsewhere = strike, f"http://{served.address}"
    names = ("static-0", "static-1", "org/daemon-0", "org/daemon-1", "org/daemon-11")
    site.check(site.pull(site.wanted(*names)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scheme", ["", "bearer"])
def test_five_percent_of_requests_go_wrong(served, tmp_path, seed, scheme):
    chance = random.Random(seed)
    served.scheme = scheme
    served.elsewhere = f"http://{served.address}"
    served.fault = lambda _r: chance.choice(faulty.FAULTS) if chance.random() < 0.05 else ""
    for number in range(4):
        site = Site(tmp_path / str(number), served)
        site.check(site.pull())


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("reset", "closed early|Connection reset"),
        ("truncate", "closed early"),
        ("corrupt", "arrived with other bytes"),
        ("429", "answers 429 \\(TOOMANYREQUESTS: made by the test\\) \\(8 times\\)"),
        ("503", "answers 503"),
        ("500", "answers 500 .*8 times"),
        ("403", "answers 403"),
        ("404", "answers 404"),
        ("length-short", "announces"),
        ("length-long", "announces"),
        ("redirect", "more than 5 redirections"),
        ("garbage", "broken answer"),
        ("401", "answers 401"),
    ],
)
def test_what_never_works_fails_with_the_reason(served, tmp_path, fault, reason):
    bad = next(iter(json.loads(served.manifests["org/daemon-3", "1.0"])["layers"][-1:]))["digest"]
    served.fault = lambda request: fault if bad in request.path else ""
    served.elsewhere = f"http://{served.address}"
    site = Site(tmp_path, served)
    with pytest.raises(FetchError, match=f"1 of 25 images .*: org/daemon-3: .*{reason}"):
        site.pull()
    assert not site.store.has(bad.removeprefix("sha256:"))
    # the others came, and what is mended comes then
    before = served.blob_bytes
    served.fault = lambda _request: ""
    site.check(site.pull())
    assert served.blob_bytes - before <= len(served.blobs[bad])


class Breaks:
    """Truncates the blob it is for, each time but the last."""

    def __init__(self, digest: str, *more: str) -> None:
        self.digest = digest
        self.faults = ["truncate", *more]

    def __call__(self, request: faulty.Request) -> str:
        if self.digest in request.path and request.method == "GET" and self.faults:
            return self.faults.pop(0)
        return ""


@pytest.mark.parametrize("then", ["", "200-for-206", "416", "other-range", "corrupt", "no-length"])
def test_resume_against_servers_that_do_it_wrong(served, tmp_path, then):
    one = Site(tmp_path, served)
    (image,) = one.wanted("static-1")
    big = json.loads(served.manifests["static-1", "1.0"])["layers"][0]["digest"]
    served.fault = Breaks(big, *([then] if then else []))
    one.check(one.pull([image]))
    ranges = [r.headers.get("range") for r in served.requests if big in r.path]
    half = len(served.blobs[big]) // 2
    assert ranges[:2] == [None, f"bytes={half}-"]
    if not then:
        assert served.sent[big] == len(served.blobs[big]), "no byte twice"


def test_a_longer_blob_than_announced_is_cut_off(served, tmp_path):
    site = Site(tmp_path, served)
    (image,) = site.wanted("static-0")
    name = json.loads(served.manifests["static-0", "1.0"])["layers"][0]["digest"]
    served.blobs[name] += bytes(10_000_000)
    served.fault = lambda _request: "no-length"
    with pytest.raises(FetchError, match="sends too much"):
        site.pull([image])
    left = [p.stat().st_size for p in site.store.partials.glob("*")]
    assert sum(left) == 0


def test_a_partial_of_another_process_goes_on(served, tmp_path, monkeypatch):
    monkeypatch.setattr(partial, "UNIT", 1000)
    site = Site(tmp_path, served)
    (image,) = site.wanted("static-1")
    name = json.loads(served.manifests["static-1", "1.0"])["layers"][0]["digest"]
    content = served.blobs[name]
    with partial.opened(site.store.partials, name[7:]) as part:
        part.write(memoryview(content[:5000]))
    site.check(site.pull([image]))
    assert served.sent[name] == len(content) - 5000
    # and all of it: killed between the last byte and the move
    other = Site(tmp_path / "other", served)
    with partial.opened(other.store.partials, name[7:]) as part:
        part.write(memoryview(content))
    served.sent.clear()
    other.check(other.pull([image]))
    assert name not in served.sent


def test_a_name_whose_content_the_disk_lost_is_fetched_again(site, served):
    site.pull()
    name = next(iter(served.blobs))[7:]
    site.store.path(name).write_bytes(b"")
    document = next(iter(served.manifests.values()))
    site.store.path(image_set.digest(document)[7:]).write_bytes(bytes(len(document)))
    site.check(site.pull())


def test_a_moved_tag_fails_with_both_digests_before_any_blob(site, served):
    images = site.wanted()
    old, new = images[0].reference.digest, images[1].reference.digest
    name = images[0].name
    served.manifests[name, "1.0"] = served.manifests[images[1].name, "1.0"]
    with pytest.raises(FetchError) as caught:
        site.pull(images)
    assert caught.value.reason == (
        f"1 of 25 images cannot be pulled: {name}: the tag 1.0 of {served.address}/{name} has "
        f"moved: {old} is pinned, {served.address} has {new}"
    )
    assert "pin the new digest" in caught.value.solution
    assert served.count("GET", "/blobs/") == 0


def test_a_moved_tag_is_seen_although_everything_is_here(site, served):
    images = site.wanted()
    site.pull(images)
    served.manifests[images[0].name, "1.0"] = served.manifests[images[1].name, "1.0"]
    with pytest.raises(FetchError, match="has moved"):
        site.pull(images)


def test_all_that_is_wrong_at_once(site, served):
    images = site.wanted("static-0", "static-1", "static-2")
    del served.manifests["static-0", images[0].reference.digest]
    del served.manifests["static-2", "1.0"]
    with pytest.raises(FetchError) as caught:
        site.pull(images)
    for part in ("2 of 3 images", "static-0: ", "static-2: ", "MANIFEST_UNKNOWN"):
        assert part in caught.value.reason


def test_no_room(site, served, monkeypatch):
    """What an earlier pull claimed does not count twice."""
    usage = types.SimpleNamespace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(SpaceError, match="MB of images are to come"):
        site.pull()
    for size, name in ((len(data), digest[7:]) for digest, data in served.blobs.items()):
        with partial.opened(site.store.partials, name) as part:
            part.reserve(size)
    site.check(site.pull())


# -- indexes and what refers to images ------------------------------------------------------------
@pytest.mark.parametrize(
    ("platforms", "kept"),
    [
        (("linux/amd64",), ["amd64"]),
        (("linux/s390x",), ["s390x"]),
        (("linux/arm64", "linux/amd64"), ["amd64", "arm64"]),
        (("all",), ["amd64", "arm64", "s390x"]),
    ],
)
def test_platforms(served, tmp_path, platforms, kept):
    digests = image_set.put_index(served.add, "multi", "amd64", "arm64", "s390x")
    site = Site(tmp_path, served)
    (pulled,) = site.pull(site.wanted("multi", platforms=platforms))
    site.check([pulled])
    if len(platforms) == 1 and platforms != ("all",):
        assert pulled.top.digest == digests[kept[0]]
        assert pulled.manifests == (pulled.top,)
    else:
        assert (pulled.top.digest == digests[""]) == (platforms == ("all",))
        assert [m.digest for m in pulled.manifests[1:]] == [digests[name] for name in kept]
    assert len(pulled.blobs) == 2 * len(kept)
    assert served.count("GET", "/blobs/") == 2 * len(kept)


def test_one_image_of_an_index_may_be_pinned_under_the_tag_of_the_index(served, tmp_path):
    digests = image_set.put_index(served.add, "multi", "amd64", "arm64")
    pin = reference.parse(f"{served.address}/multi:1.0@{digests['arm64']}")
    (pulled,) = Site(tmp_path, served).pull([Wanted("multi", pin)])
    assert pulled.top.digest == digests["arm64"]


def test_a_platform_that_is_missing(served, tmp_path):
    image_set.put_index(served.add, "multi", "amd64", "arm64")
    site = Site(tmp_path, served)
    with pytest.raises(FetchError, match="no image for linux/mips, only for linux/amd64, "):
        site.pull(site.wanted("multi", platforms=("linux/mips",)))


@pytest.mark.parametrize("way", ["api", "pages", "tag"])
def test_what_refers_to_an_image_comes_along(served, tmp_path, way):
    document, blobs = image_set.oci("app", "amd64")
    digest = served.add("app", "1.0", document, blobs)
    entries = []
    for kind in ("application/sbom", "application/signature", "application/vex"):
        found, more = image_set.oci(kind, "x", subject=digest, kind=kind)
        served.add("app", "", found, more)
        entries.append(
            {
                "mediaType": manifest.OCI_MANIFEST,
                "digest": image_set.digest(found),
                "size": len(found),
            }
        )
    served.has_api, served.page = way != "tag", 1 if way == "pages" else 100
    if way == "tag":
        index = {"schemaVersion": 2, "mediaType": manifest.OCI_INDEX, "manifests": entries}
        served.manifests["app", digest.replace(":", "-")] = json.dumps(index).encode()
    else:
        served.referring[digest] = entries
    signature, more = image_set.oci("cosign", "x")
    tag = f"{digest.replace(':', '-')}.sig"
    signed = served.add("app", tag, signature, more)

    site = Site(tmp_path, served)
    (pulled,) = site.pull(site.wanted("app", referrers=True))
    site.check([pulled])
    assert pulled.top.digest == digest
    assert {m.digest for m in pulled.manifests} == {digest, signed, *(e["digest"] for e in entries)}
    assert pulled.tags == {tag: signed}
    (without,) = site.pull(site.wanted("app"))
    assert without.manifests == (pulled.top,)


def test_a_next_page_elsewhere_gets_no_login(served, tmp_path):
    document, blobs = image_set.oci("app", "amd64")
    digest = served.add("app", "1.0", document, blobs)
    entry = {"mediaType": "x", "digest": digest, "size": len(document)}
    served.referring[digest] = [entry, {**entry, "size": 1}]
    served.page, served.elsewhere = 1, "http://elsewhere.example"
    site = Site(tmp_path, served)
    with pytest.raises(FetchError, match=r"goes on at http://elsewhere.example/v2/.* elsewhere"):
        site.pull(site.wanted("app", referrers=True))


# -- mirrors --------------------------------------------------------------------------------------
@pytest.mark.parametrize("fault", ["", "early-reset", "404", "500", "corrupt", "gone"])
def test_a_mirror_comes_first_and_may_fail(served, tmp_path, fault):
    with faulty.serving() as mirror:
        for (name, tag), content in served.manifests.items():
            mirror.manifests[f"cache/{name}", tag] = content
        mirror.blobs |= served.blobs
        mirror.fault = lambda _request: fault
        base = f"http://{mirror.address}" if fault != "gone" else "http://127.0.0.1:1"
        mirrors = (Mirror(served.address, base, "cache"),)
        site = Site(tmp_path, served, mirrors=mirrors)
        site.check(site.pull())
        assert (served.requests == []) == (fault == "")


def test_every_place_is_named_when_none_has_it(served, tmp_path):
    mirrors = (Mirror(served.address, "http://127.0.0.1:1"),)
    site = Site(tmp_path, served, mirrors=mirrors)
    served.fault = lambda _request: "403"
    with pytest.raises(FetchError, match=r"127.0.0.1:1: Connection refused .*answers 403"):
        site.pull(site.wanted("static-0"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r.example=https://m.example", Mirror("r.example", "https://m.example")),
        ("r.example:5=http://m:8/a/b/", Mirror("r.example:5", "http://m:8", "a/b")),
    ],
)
def test_parse_mirror(text, expected):
    assert parse_mirror(text) == expected


@pytest.mark.parametrize(
    "text", ["", "r.example", "r.example=m.example", "=https://m", "r=ftp://m", "r=https://u:p@m"]
)
def test_parse_mirror_refuses(text):
    with pytest.raises(ValueError, match="registry="):
        parse_mirror(text)
