import json
import os
import re
import subprocess
import sys

import pytest

from buildchain.bill import bill
from buildchain.core.errors import CommandError, DocumentError
from buildchain.core.layout import Layout
from buildchain.manual import documents, links, pages, site
from buildchain.proof import document_check
from buildchain.proof.medium_check import Check
from tests.conftest import ROOT
from tests.unit.manual.conftest import copied, made
from tests.unit.mounted import Memory

MAKE = """
import os, sys
os.umask(0o77)
from pathlib import Path
from tests.unit.manual import conftest
print(conftest.made(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# -- the manual ------------------------------------------------------------------------------------
def test_every_page_is_there(manual):
    layout = Layout(ROOT, ROOT / "_build", ROOT / "_build", "metalk8s")
    sources = [path.relative_to(ROOT).as_posix() for path in documents.sources(layout)]
    wanted = [name for name in (*sources, *pages.BESIDE) if not name.endswith(".svg")]
    assert {re.sub(r"\.md$", ".html", pages.place(name)) for name in wanted} | {"search.html"} == {
        path.relative_to(manual).as_posix() for path in manual.rglob("*.html")
    }


def test_nothing_leads_away_and_nothing_is_left_over(manual):
    found = links.Site(manual)
    assert (found.problems, found.left_over()) == ([], [])


def test_scripts_load_nothing_from_elsewhere(manual):
    """Not by name; that they ask for nothing while they run, a browser proves (integration)."""
    scripts = sorted(manual.rglob("*.js"))
    assert "searchindex.js" in {script.name for script in scripts}
    for script in scripts:
        code = re.sub(r"(?s)/\*.*?\*/|//[^\n]*", "", script.read_text())
        assert "createElementNS" in code or "//" not in code, script.name
    options = (manual / "_static/documentation_options.js").read_text()
    assert "SHOW_SEARCH_SUMMARY: false" in options, "it would fetch pages, which file:// forbids"


def test_each_page_says_of_which_version_it_is(manual):
    for path in manual.rglob("*.html"):
        assert "MetalK8s 1.2.3 documentation</title>" in path.read_text(), path.name


def test_search_finds_words_of_pages(manual):
    text = (manual / "searchindex.js").read_text()
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    found = index["terms"]["etcd"]
    found = [found] if isinstance(found, int) else found
    assert "reference/ports" in {index["docnames"][number] for number in found}


def test_each_page_names_every_chapter(manual):
    page = (manual / "reference/ports.html").read_text()
    for chapter in pages.chapters(ROOT / pages.CHAPTERS):
        if chapter.page == pages.FIRST:
            assert f'<span class="caption-text">{chapter.title}</span>' in page


def test_whose_the_files_are(manual):
    """The bill says so of each, and the page of licences has the texts."""
    ours = {"manual.css", "documentation_options.js"}
    there = {path.name for path in (manual / "_static").iterdir()} - ours
    assert {f"docs/html/_static/{name}" for name in there} == bill.THEIR_LICENSES.keys()
    page = (manual / "license.html").read_text()
    for words in ("Apache License", "by the Sphinx team", "Richard Boulton"):
        assert words in page


def test_the_same_bytes_elsewhere(manual, tmp_path):
    """In another folder, zone, language, hash seed and with other modes, later."""
    root = copied(tmp_path / "a" / "checkout")
    for path in root.rglob("*"):
        os.utime(path, (1, 1))
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "USER": "somebody",
        "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "7",
    }  # fmt: skip
    subprocess.run(
        [sys.executable, "-c", MAKE, root, tmp_path / "b"],
        cwd=ROOT, env=environment, check=True, timeout=600,
    )  # fmt: skip
    there = contents(tmp_path / "b" / "html")
    assert there == contents(manual)
    for name, (mode, content) in there.items():
        assert mode == 0o644
        assert str(tmp_path).encode() not in content, name


def test_the_check_of_the_medium_wants_each_file(manual):
    """And finds none that is not there: beside the pages as Markdown, as on the ISO."""
    layout = Layout(ROOT, ROOT / "_build", ROOT / "_build", "metalk8s")
    html = {f"{documents.HTML}/{name}": content for name, (_, content) in contents(manual).items()}
    pages_ = {p.relative_to(ROOT).as_posix(): p.read_bytes() for p in documents.sources(layout)}
    check = Check(Memory({**html, **pages_}), {}, {})
    document_check.follow(check)
    wanted = check.wanted.files.keys()
    assert wanted - {*html, *pages_} == set()
    assert {*html, *pages_} - wanted - set(document_check.FIRST) == set()


# -- what is refused -------------------------------------------------------------------------------
def test_a_manual_of_two_pages(checkout, tmp_path):
    folder = made(checkout, tmp_path / "build")
    assert "&lt;name&gt;" in (folder / "web.html").read_text(), "a placeholder is no HTML"
    assert not list((tmp_path / "build" / "tmp").iterdir())


def test_all_that_is_wrong_is_told_at_once(checkout, tmp_path):
    page = (
        "# Web\n\n## Set up\n\n## Set up!\n\n"
        "[a](gone.md)\n\n[b](README.md#gone)\n\n[c](#gone)\n\n![d](gone.png)\n\n[e](gone.sh)\n"
    )
    (checkout / "docs/web.md").write_text(page)
    (checkout / "docs/lost.md").write_text("# Lost\n")
    with pytest.raises(DocumentError) as caught:
        made(checkout, tmp_path / "build")
    told = caught.value.details.splitlines()
    assert sorted(told) == [
        "docs/lost.md: docs/site/chapters.toml has it in no chapter",
        "docs/web.md: 2 headings have the anchor #set-up",
        "docs/web.md:11: gone is linked to, and is not there",
        "docs/web.md:13: gone.png is shown, and is not there",
        "docs/web.md:15: gone.sh is linked to, and is not there",
        "docs/web.md:7: gone.md is linked to, and is not there",
        "docs/web.md:9: the other page has no anchor #gone",
    ]
    assert "chapters.toml" in caught.value.solution
    assert not (tmp_path / "build" / "html").exists()


def test_a_chapter_of_a_page_that_is_not_there(checkout, tmp_path):
    with (checkout / pages.CHAPTERS).open("a") as stream:
        stream.write("[[chapters]]\ntitle = 'More'\npages = ['more.md']\n")
    with pytest.raises(DocumentError, match="mistakes") as caught:
        made(checkout, tmp_path / "build")
    assert "chapters.toml names docs/more.md, which is not there" in caught.value.details


def test_what_a_page_loads_from_elsewhere(checkout, tmp_path):
    with (checkout / "docs/web.md").open("a") as stream:
        stream.write("\n![i](https://x.example/i.png)\n")
    with pytest.raises(DocumentError) as caught:
        made(checkout, tmp_path / "build")
    assert "web.html: https://x.example/i.png is loaded from elsewhere" in caught.value.details


def test_a_failure_of_sphinx_itself(checkout, tmp_path):
    (checkout / "docs/site/conf.py").write_text("raise SystemExit(3)\n")
    with pytest.raises((CommandError, DocumentError)) as caught:
        made(checkout, tmp_path / "build")
    assert "conf" in caught.value.friendly()


def test_everything_that_decides_is_an_input():
    layout = Layout(ROOT, ROOT / "_build", ROOT / "_build", "metalk8s")
    found = {path.relative_to(ROOT).as_posix() for path in site.inputs(layout, ())}
    assert found >= {
        *pages.BESIDE,
        *("requirements.txt", pages.CHAPTERS, "docs/site/conf.py", "docs/site/static/manual.css"),
    }
