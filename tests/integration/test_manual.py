"""The manual on the ISO, in a browser that has no network."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pathlib
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.conftest import require, run

pytestmark = pytest.mark.integration

BROWSER = "chromium-headless-shell"
# Opens each page in a frame of its own, one after the other, and leaves what was seen.
SCRIPT = """
const opened = {};
const after = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
async function open(name, url) {
    const frame = document.createElement("iframe");
    const loaded = new Promise((done) => { frame.onload = done; });
    frame.src = url;
    document.body.append(frame);
    await loaded;
    if (url.includes("?q=")) await after(3000);
    const page = frame.contentDocument;
    opened[name] = {
        title: page ? page.title : "",
        text: page ? page.body.innerText.length : 0,
        styles: page ? [...page.styleSheets].length : 0,
        pictures: page ? [...page.images].filter((one) => one.naturalWidth == 0).length : 0,
        found: page ? [...page.querySelectorAll("#search-results a")].map((a) => a.pathname) : [],
    };
    frame.remove();
}
(async () => {
    for (const [name, url] of Object.entries(PAGES)) await open(name, url);
    document.body.textContent = "opened" + JSON.stringify(opened) + "opened";
})();
"""


class Witness(http.server.BaseHTTPRequestHandler):
    """A proxy that leads nowhere and remembers who asked for what."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(404)

    do_CONNECT = do_POST = do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def witness() -> Iterator[tuple[str, list[str]]]:
    """Provide the address of a proxy and the list of what it is asked for."""
    asked: list[str] = []
    handler = type("Handler", (Witness,), {"asked": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


def browse(folder: pathlib.Path, pages: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Open pages by their addresses; return what was seen, and what was asked of the network."""
    script = SCRIPT.replace("PAGES", json.dumps(pages))
    start = folder / "start.html"
    start.write_text(f"<meta charset=utf-8><body><script>{script}</script>", encoding="utf-8")
    with witness() as (proxy, asked):
        said = run(
            BROWSER, "--dump-dom", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            # So that the first page may look into the others; none of ours looks into another.
            "--allow-file-access-from-files", "--virtual-time-budget=600000",
            f"--proxy-server={proxy}", "--proxy-bypass-list=<-loopback>",
            "--disable-background-networking", "--disable-component-update",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            start.as_uri(), timeout=300,
        )  # fmt: skip
    found = re.search(r"opened(\{.*\})opened", said)
    assert found, said[-2000:]
    return json.loads(found[1].replace("&amp;", "&")), asked


def test_every_page_opens_without_a_network(iso_tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """From the mounted medium, with styles and pictures; nobody is asked for anything."""
    require(BROWSER)
    site = iso_tree / "docs" / "html"
    pages = {p.relative_to(site).as_posix(): p.as_uri() for p in sorted(site.rglob("*.html"))}
    assert len(pages) > 40
    opened, asked = browse(tmp_path, pages)
    assert asked == []
    assert opened.keys() == pages.keys()
    for name, seen in opened.items():
        assert " — MetalK8s " in seen["title"], name
        assert (seen["text"] > 200, seen["styles"], seen["pictures"]) == (True, 3, 0), name


def test_search_works_on_the_medium(iso_tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    require(BROWSER)
    search = (iso_tree / "docs/html/search.html").as_uri()
    opened, asked = browse(tmp_path, {"search": f"{search}?q=authorities"})
    assert asked == []
    there = {path.rpartition("/")[2] for path in opened["search"]["found"]}
    assert "certificates.html" in there


def test_the_witness_sees_what_a_page_asks_for(tmp_path: pathlib.Path) -> None:
    require(BROWSER)
    page = tmp_path / "page.html"
    page.write_text("<title>p</title><img src='http://elsewhere.invalid/i.png'>")
    opened, asked = browse(tmp_path, {"page": page.as_uri()})
    assert opened["page"]["pictures"] == 1
    assert asked == ["http://elsewhere.invalid/i.png"]
