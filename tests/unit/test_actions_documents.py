from buildchain.actions import document_check, documents


def test_pages_are_deployed_and_nothing_else(layout):
    for name in ("docs/README.md", "docs/how-to/web.md", "docs/how-to/.web.md.swp", "README.md"):
        path = layout.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(0o600)
    for name in documents.ALONE:
        (layout.root / name).write_text(name)
    (layout.documents / "stale").mkdir(parents=True)
    made = documents.deploy(layout, documents.sources(layout))
    assert made.paths == (layout.documents,)
    found = {
        path.relative_to(layout.documents).as_posix(): f"{path.stat().st_mode & 0o777:o}"
        for path in layout.documents.rglob("*")
        if path.is_file()
    }
    names = ("CHANGELOG.md", "LICENSE", "docs/README.md", "docs/how-to/web.md")
    assert found == dict.fromkeys(names, "644")


def test_links():
    text = '[a](b.md) [c](../d/#e "f") [g](#h) [i](https://j.example/k.md) `docs/no.md`'
    assert document_check.links("docs/x/y.md", text) == {"docs/x/b.md", "docs/d"}
