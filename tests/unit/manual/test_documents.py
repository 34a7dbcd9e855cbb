from buildchain.manual import documents
from buildchain.proof import document_check


def test_pages_are_deployed_and_nothing_else(layout):
    for name in (
        *("docs/README.md", "docs/how-to/web.md", "docs/how-to/.web.md.swp", "docs/site/conf.py"),
        *("docs/how-to/web.svg", "README.md"),
    ):
        path = layout.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(0o600)
    for name in documents.ALONE:
        (layout.root / name).write_text(name)
    (layout.documents / "stale").mkdir(parents=True)

    def render(folder):
        folder.mkdir(parents=True)
        (folder / "index.html").write_text("")
        (folder / "index.html").chmod(0o644)

    made = documents.deploy(layout, documents.sources(layout), render)
    assert made.paths == (layout.documents,)
    found = {
        path.relative_to(layout.documents).as_posix(): f"{path.stat().st_mode & 0o777:o}"
        for path in layout.documents.rglob("*")
        if path.is_file()
    }
    names = (
        *("CHANGELOG.md", "LICENSE", "docs/README.md", "docs/how-to/web.md"),
        *("docs/how-to/web.svg", "docs/html/index.html"),
    )
    assert found == dict.fromkeys(names, "644")


def test_links():
    text = '[a](b.md) [c](../d/#e "f") [g](#h) [i](https://j.example/k.md) `docs/no.md`'
    assert document_check.links("docs/x/y.md", text) == {"docs/x/b.md", "docs/d"}


def test_links_of_html():
    text = """<a class="b" href="b.html#c">](no.md)</a><a href="#h"> <form action="../s.html">
    <script src="../_static/t.js?v=1"></script><a href="https://j.example/k.html">href=&quot;</a>"""
    wanted = {"d/x/b.html", "d/s.html", "d/_static/t.js"}
    assert document_check.links("d/x/y.html", text) == wanted
    style = "a { background: url(a.png) } b { background: url( 'data:x' ) }"
    assert document_check.links("d/_static/y.css", style) == {"d/_static/a.png"}
    assert document_check.links("d/t.js", "[a](b.md)") == set()
