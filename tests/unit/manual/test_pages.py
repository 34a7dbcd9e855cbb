import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core.errors import BuildError
from buildchain.manual import pages
from buildchain.manual.pages import Chapter
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("docs/README.md", "index.md"),
        ("docs/adr/README.md", "adr/README.md"),
        ("docs/how-to/web.md", "how-to/web.md"),
        ("README.md", "introduction.md"),
        ("LICENSE", "license.md"),
    ],
)
def test_places(name, place):
    assert pages.place(name) == place
    assert pages.origin(place) == name


@pytest.mark.parametrize(
    ("name", "text", "moved"),
    [
        ("docs/a/b.md", "[x](c.md#d) [y](../README.md)", "[x](c.md#d) [y](../index.md)"),
        ("docs/a/b.md", "[x](../../CHANGELOG.md#e)", "[x](../changelog.md#e)"),
        ("docs/a/b.md", "[x](../adr/README.md 'y')", "[x](../adr/README.md 'y')"),
        ("docs/README.md", "[x](../LICENSE), ![y](a.svg)", "[x](license.md), ![y](a.svg)"),
        ("README.md", "[x](docs/README.md) [y](LICENSE)", "[x](index.md) [y](license.md)"),
        ("docs/a/b.md", "[x](https://y.example/README.md) [z](#d)",
                        "[x](https://y.example/README.md) [z](#d)"),
    ],
)  # fmt: skip
def test_links_are_as_in_the_site(name, text, moved):
    assert pages.relocated(name, text) == moved


SEGMENT = st.text(alphabet="abc", min_size=1, max_size=3)


@given(st.lists(SEGMENT, min_size=1, max_size=3), st.lists(SEGMENT, min_size=1, max_size=3))
def test_links_between_pages_of_docs_stay(here, there):
    """Whatever is around them; what stands outside of `docs` alone is called otherwise."""
    name = f"docs/{'/'.join(here)}.md"
    text = f"`](` [x]({'../' * (len(here) - 1)}{'/'.join(there)}.md)"
    link = pages.relocated(name, text)
    assert pages.relocated(name, link) == link
    assert link.startswith("`](` [x](")
    assert link.endswith(f"{there[-1]}.md)")


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("# A\n## B\n## C\n", []),
        ("# A\n## A b!\n### a B #\n", ["p.md: 2 headings have the anchor #a-b"]),
        ("# A\n```sh\n# A\n```\n~~~~\n~~~\n# A\n~~~~\n", []),
        ("# A\n# B\n# A\n# B\n# B\n", ["p.md: 2 headings have the anchor #a",
                                      "p.md: 3 headings have the anchor #b"]),
    ],
)  # fmt: skip
def test_headings_that_links_cannot_tell_apart(text, sentences):
    assert pages.twice("p.md", text) == sentences


def test_navigation():
    names = ["docs/README.md", "docs/adr/README.md", "docs/adr/2.md", "docs/adr/1.md", "README.md"]
    found = [Chapter("Intro", ("README.md",)), Chapter("Why", ("docs/adr/[0-9].md", "docs/x.md"))]
    lines = pages.spine(found, names).splitlines()
    assert [line for line in lines if line.startswith((":caption", "/"))] == [
        *(":caption: Intro", "/introduction"),
        *(":caption: Why", "/adr/1", "/adr/2"),
    ]
    assert pages.missing(found, names) == ["docs/x.md"]
    assert pages.missing([Chapter("Of none", (), "docs/y.md")], names) == ["docs/y.md"]
    assert pages.spine([], names) == ""


def test_chapters_of_the_manual():
    """In the order of the spec; the decisions are of a page of their own."""
    found = pages.chapters(ROOT / pages.CHAPTERS)
    assert [chapter.title for chapter in found] == [
        *("Introduction and quickstart", "Installation", "Operation", "Developer"),
        *("Decisions", "Reference", "Glossary"),
    ]
    assert {chapter.page for chapter in found} == {"docs/README.md", "docs/adr/README.md"}
    assert found[0].pages == ("README.md",)


@pytest.mark.parametrize(
    "text", ["", "chapters = 1\n", "[[chapters]]\ntitle = 'A'\n", "[", "chapters = ['a']\n"]
)
def test_what_is_no_list_of_chapters(tmp_path, text):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(BuildError, match=r"c\.toml has no chapters") as caught:
        pages.chapters(tmp_path / "c.toml")
    assert "title and a list of pages" in caught.value.solution


def test_chapters_that_are_not_there(tmp_path):
    with pytest.raises(BuildError, match="has no chapters"):
        pages.chapters(tmp_path / "c.toml")
