import pytest

from buildchain.manual import links

INDEX = '<title>x</title><h1 id="a">A</h1><a href="p.html#b">p</a>'
PAGE = '<h1 id="b">B</h1><a href="index.html">up</a>'


def site(folder, **more):
    """Lay out a site of two pages and more, `__` for `.` in names."""
    files = {"index__html": INDEX, "p__html": PAGE, **more}
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return links.Site(folder)


def test_a_site_that_is_whole(tmp_path):
    head = (
        '<link rel="stylesheet" href="s.css?v=1"><script src="t.js"></script><img src="i.png">'
        '<link rel="search" href="p.html"><a href="https://x.example/">x</a>'
        '<p style="background: url(j.png)">'
    )
    found = site(
        tmp_path, index__html=INDEX + head, t__js="", i__png="", j__png="", k__png="", l__png="",
        s__css='a { background: url("k.png") } b { background: url(data:image/png;base64,A) }',
    )  # fmt: skip
    assert found.problems == []
    assert found.left_over() == ["l.png"]


@pytest.mark.parametrize(
    ("added", "sentence"),
    [
        ('<a href="q.html">', "index.html: q.html is not there"),
        ('<a href="p.html#no">', "index.html: p.html has no anchor #no"),
        ('<a href="#no">', "index.html: index.html has no anchor #no"),
        ('<img src="no.png">', "index.html: no.png is not there"),
        ('<form action="no.html">', "index.html: no.html is not there"),
        ('<h2 id="a">', "index.html: the anchor #a is there more than once"),
        ('<img src="https://x.example/i.png">',
         "index.html: https://x.example/i.png is loaded from elsewhere"),
        ('<script src="//x.example/t.js"></script>',
         "index.html: //x.example/t.js is loaded from elsewhere"),
        ('<link href="http://x.example/s.css" rel="stylesheet">',
         "index.html: http://x.example/s.css is loaded from elsewhere"),
        ('<link rel="preconnect" href="https://x.example">',
         "index.html: https://x.example is loaded from elsewhere"),
        ("<style>@import 'https://x.example/s.css';</style>",
         "index.html: https://x.example/s.css is loaded from elsewhere"),
        ('<p style="background: url( \'https://x.example/f\' )">',
         "index.html: https://x.example/f is loaded from elsewhere"),
        ('<link rel="stylesheet" href="bad.css">',
         "bad.css: https://x.example/f.woff is loaded from elsewhere"),
        ('<script>fetch("x")</script>', "index.html: a script of it asks for something else"),
        ('<iframe srcdoc="" src="ftp://x.example/">',
         "index.html: ftp://x.example/ is loaded from elsewhere"),
    ],
)  # fmt: skip
def test_what_is_wrong(tmp_path, added, sentence):
    style = "@font-face { src: url(https://x.example/f.woff) }"
    assert sentence in site(tmp_path, index__html=INDEX + added, bad__css=style).problems


def test_a_page_that_no_page_leads_to(tmp_path):
    assert site(tmp_path, lost__html="").problems == ["lost.html: no page leads to it"]


@pytest.mark.parametrize(
    ("page", "target", "found"),
    [
        ("a/b.html", "../c.html#d", ("c.html", "d")),
        ("a/b.html", "#d", ("a/b.html", "d")),
        ("a/b.html", "c%20d.html?q=1#%C3%A4", ("a/c d.html", "ä")),
    ],
)
def test_where_a_link_leads(page, target, found):
    assert links.inside(page, target) == found
