"""Hostile names and trees: the generator refuses with a reason, or nginx starts and serves them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from static_container_registry import (
    Options,
    Parts,
    RegistryError,
    check,
    read_tree,
    render,
)
from static_container_registry.server import running
from tests.client import Client, free_port
from tests.fixture_tree import Layout, image, items, made

pytestmark = pytest.mark.integration

# What nginx, regular expressions, Jinja, JSON or URLs read something into.
ODD = st.text("ab09.-_ \"'$;{}#%\\|^*+?()[]<>&=:@~,\n\té", min_size=1, max_size=8)
GOOD = st.from_regex(r"[a-z0-9]{1,4}((\.|_|__|-{1,3})[a-z0-9]{1,3}){0,2}", fullmatch=True)
PART = st.one_of(*[GOOD] * 9, ODD).filter(lambda text: text not in (".", ".."))
TAG = st.one_of(*[st.from_regex(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,9}", fullmatch=True)] * 9, ODD)
PLACE = st.lists(PART, min_size=1, max_size=4).map("/".join)
ANNOTATIONS = st.dictionaries(st.text(max_size=9), st.text(max_size=20), max_size=3)
HARMLESS = st.fixed_dictionaries(
    {}, optional={"annotations": ANNOTATIONS, "artifactType": st.text(max_size=9)}
)
NONSENSE = st.sampled_from(
    [{"layers": "none"}, {"mediaType": "text/plain; x=';$uri'"}, {"config": {"size": "'"}}]
)
FIELDS = st.one_of(*[HARMLESS] * 9, NONSENSE)
QUICK = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _dir_tree(root: Path, place: str, tag: str, fields: dict[str, object]) -> None:
    folder = root / place / tag.replace("/", "")
    if not folder.exists():
        manifest = image(folder, place)
        (folder / "manifest.json").write_text(json.dumps({**manifest, **fields}))


def _layout_tree(root: Path, place: str, tag: str, fields: dict[str, object]) -> None:
    if not (root / place / "blobs").exists():
        layout = Layout(root / place)
        subject = layout.image(place)
        layout.name(subject, tag)
        manifest, blobs = made(tag)
        for blob in blobs:
            layout.blob(blob)
        layout.name(layout.document({**manifest, **fields, "subject": subject}))


@QUICK
@given(
    st.lists(st.tuples(st.booleans(), PLACE, TAG, FIELDS), min_size=1, max_size=5),
    st.one_of(st.just(""), PLACE),
    PART,
)
def test_served_or_refused(
    nginx: str, trees: list[tuple[bool, str, str, dict[str, object]]], prefix: str, folder: str
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / folder
        root.mkdir()
        Path(scratch).chmod(0o755)
        for is_layout, place, tag, fields in trees:
            try:
                (_layout_tree if is_layout else _dir_tree)(root, place, tag, fields)
            except (FileExistsError, NotADirectoryError):
                return  # no file system has such a tree
        text = _rendered(root, prefix)
        event("served" if text else "refused")
        if not text:
            return
        assert check(root) == []
        port = free_port()
        with running(text, port, nginx):
            _all_is_served(Client(port), root, prefix)


def _rendered(root: Path, prefix: str) -> str:
    try:
        return render(read_tree(root), Options(str(root), prefix))
    except RegistryError as error:
        said = (error.reason, error.solution)
    assert all(said)
    return ""


def _all_is_served(client: Client, root: Path, prefix: str) -> None:
    lead = f"/v2/{prefix.strip('/')}/" if prefix.strip("/") else "/v2/"
    repositories = read_tree(root)
    for item in items(root, repositories):
        path = f"{lead}{item.name}/manifests/{item.tag}"
        assert client(path)[2] == item.path.read_bytes()
    for repository in repositories:
        assert client(f"{lead}{repository.name}/tags/list")[0] == 200
        for referrer in repository.referrers:
            path = f"{lead}{repository.name}/referrers/sha256:{referrer.subject}"
            told = json.loads(client(path)[2])["manifests"]
            assert json.loads(referrer.descriptor) in told


@QUICK
@given(st.text(min_size=1, max_size=40), st.text(max_size=20))
def test_any_address_is_answered_in_json(hostile: Client, first: str, second: str) -> None:
    """Nothing a client asks for makes nginx fail, or answer with a page of its own."""
    for middle in ("manifests", "blobs", "tags", "referrers"):
        raw = [part.encode("utf-8", "surrogatepass") for part in (first, second)]
        for name, rest in ((quote(raw[0]), quote(raw[1])), ("pause", quote(raw[0]))):
            path = f"/v2/{name}/{middle}/{rest}"
            if "%00" in path or "/../" in f"{path}/":
                continue  # nginx refuses these before it looks at any configuration
            status, fields, body = hostile(path)
            assert status in (200, 400, 404), path
            assert fields["content-type"].startswith("application/")
            assert isinstance(json.loads(body), dict)


@pytest.fixture(scope="module")
def hostile(nginx: str, tmp_path_factory: pytest.TempPathFactory) -> object:
    root = tmp_path_factory.mktemp("hostile") / "images"
    image(root / "pause" / "3.2", "pause")
    port = free_port()
    text = render(read_tree(root), Options(str(root), parts=Parts.ALL))
    with running(text, port, nginx):
        yield Client(port)
