"""The table of known vulnerabilities is well-formed, true of the pins, and on the page.

``METALK8S_UPDATE_GOLDEN=1`` rewrites the page; the change is then read in the diff.
"""

import io
import os
import re
import shutil
import tarfile
from dataclasses import replace

import pytest

from buildchain.core.errors import ContentError, PinError
from buildchain.core.layout import Layout
from buildchain.project import catalog, context, vulnerabilities
from buildchain.project.vulnerabilities import FIXED, LEVELS, NOT_AFFECTED, OPEN, Record, Table
from buildchain.proof import steps as check
from buildchain.proof import vulnerabilities as proof
from buildchain.proof.vulnerabilities import Pinned

PAGE = "docs/reference/vulnerabilities.md"
PROFILES = ("default", "upstream")
RECORD = Record(
    "CVE-2021-25741", "demo", "a way out", "< 1.3", "high", OPEN, 8.8, means="M.", lessens="L."
)
COMPONENTS = {"demo": Pinned("1.2-1+deb12u1", "1.2")}
HEAD = '[release]\naccepts = "medium"\n[[vulnerability]]\n'
GOOD = """id = "CVE-2021-25741"
component = "demo"
title = "a way out"
affected = ">= 1.0, < 1.3 or = 2.0"
level = "high"
score = 8.8
status = "not-affected"
why = "It is not used."
"""


@pytest.fixture
def checkout(root, tmp_path):
    return Layout(root=root, build=tmp_path / "build", cache=tmp_path / "cache", project="demo")


@pytest.fixture(params=PROFILES)
def components(request, checkout):
    return proof.pinned(checkout, request.param, catalog.load(checkout.root, request.param))


@pytest.fixture
def table(checkout):
    return vulnerabilities.read(checkout.pins)


# -- the table that is there --------------------------------------------------------------------
def test_the_table_is_true_of_the_pins(checkout, table, components):
    proof.prove(checkout, table, components)


def test_a_release_is_possible(table):
    proof.refuse(table)


def test_the_page_is_the_table(root, checkout, table):
    page = root / PAGE
    expected = proof.page(table, proof.pinned(checkout, "default", catalog.load(root, "default")))
    if os.environ.get("METALK8S_UPDATE_GOLDEN"):
        page.write_text(expected, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == expected


def test_each_patch_of_ours_against_a_vulnerability_is_in_the_table(root, table):
    named = {record.patch for record in table.records}
    ours = {path.name for path in root.glob("packages/*/patches/*cve-*.patch")}
    assert ours <= named


@pytest.mark.parametrize("component", ["containerd", "etcd", "jinja2", "keepalived", "nginx"])
def test_every_kind_of_component_has_a_version(components, component):
    assert components[component].version


# -- what the file may say ----------------------------------------------------------------------
def read(tmp_path, text):
    (tmp_path / vulnerabilities.NAME).write_text(text, encoding="utf-8")
    return vulnerabilities.read(tmp_path)


def test_a_good_file_is_read(tmp_path):
    table = read(tmp_path, HEAD + GOOD)
    assert table.accepts == "medium"
    assert [(r.id, r.score, r.why) for r in table.records] == [
        ("CVE-2021-25741", 8.8, "It is not used.")
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('id = "CVE-2021-25741"', 'id = "CVE-21"', "id: expected CVE-"),
        ('title = "a way out"\n', "", "title is missing"),
        ('title = "a way out"', 'title = ""', "title: expected a text"),
        ('title = "a way out"', "title = 1", "title: expected a text"),
        ("< 1.3", "before 1.3", "affected: expected"),
        ('level = "high"', 'level = "bad"', "level: expected one of low, medium"),
        ('level = "high"', 'level = "medium"', "score 8.8 is not of level medium"),
        ('level = "high"', 'level = "unrated"', "score 8.8 is not of level unrated"),
        ("score = 8.8", "score = 10.1", "score 10.1 is not of level high"),
        ("score = 8.8", "score = 0.0", "score 0.0 is not of level high"),
        ("score = 8.8", 'score = "8.8"', "score: expected a number"),
        ('status = "not-affected"\n', "", "status is missing"),
        ('status = "not-affected"', 'status = "maybe"', "status: expected one of fixed"),
        ('why = "It is not used."\n', "", "not-affected needs why"),
        ('status = "not-affected"', 'status = "fixed"', "fixed needs patch or since"),
        ('status = "not-affected"', 'status = "open"', "open needs means and lessens"),
        ('why = "It', 'accepted = "So."\nwhy = "It', "not-affected has no accepted"),
        ('why = "It', 'which = "x"\nwhy = "It', "unknown key which"),
        ('accepts = "medium"', 'accepts = "none"', "[release]: accepts: expected one of"),
        ('accepts = "medium"', "", "[release]: expected the key accepts alone"),
        ("[[vulnerability]]", "[vulnerability]", "expected tables [[vulnerability]]"),
        ("[release]", "[others]\n[release]", "unknown key others"),
        (GOOD, f"{GOOD}[[vulnerability]]\n{GOOD}", "CVE-2021-25741 of demo is there 2 times"),
        ("[release]", "[release", "line 1"),
    ],
)
def test_mistakes_are_named(tmp_path, old, new, problem):
    text = HEAD + GOOD
    assert old in text
    with pytest.raises(PinError) as caught:
        read(tmp_path, text.replace(old, new))
    assert problem in caught.value.reason


def test_all_mistakes_are_named_at_once(tmp_path):
    with pytest.raises(PinError) as caught:
        read(tmp_path, (HEAD + GOOD).replace("a way out", " ").replace("high", "bad"))
    assert "title:" in caught.value.reason
    assert "level:" not in caught.value.reason, "a form is looked at when all types are right"


def test_no_file(tmp_path):
    with pytest.raises(PinError, match="No such file"):
        vulnerabilities.read(tmp_path)


# -- what has to be true ------------------------------------------------------------------------
def source(layout, series):
    """Put Debian's part of a source where a build leaves it."""
    folder = layout.package("demo") / "SOURCES"
    folder.mkdir(parents=True)
    with tarfile.open(folder / "demo_1.debian.tar.xz", "w:xz") as archive:
        entry = tarfile.TarInfo("debian/patches/series")
        entry.size = len(series)
        archive.addfile(entry, io.BytesIO(series))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"component": "none"}, "no such package, image or Python distribution"),
        ({"affected": "< 1.2 or > 1.2, <= 1.4 or = 2"}, "1.2 is pinned, which is not affected"),
        ({"affected": "< 1.0 or >= 1.2, < 1.3"}, ""),
        ({"status": FIXED, "since": "1.2-1+deb12u1"}, ""),
        ({"status": FIXED, "since": "1.2-1+deb12u2"}, "1.2-1+deb12u2 is the first with the fix"),
        ({"status": FIXED, "patch": "ours.patch"}, ""),
        ({"status": FIXED, "patch": "none.patch"}, "packages/demo/patches has no none.patch"),
        ({"status": FIXED, "patch": "theirs.patch", "since": "1.2-1"}, ""),
        ({"status": FIXED, "patch": "none.patch", "since": "1.2-1"}, "series has no none.patch"),
        ({"status": FIXED, "patch": "# off.patch", "since": "1.2-1"}, "series has no # off.patch"),
    ],
)
def test_records_are_compared_with_the_pins(layout, changes, problem):
    patches = layout.package_sources("demo") / "patches"
    patches.mkdir(parents=True)
    (patches / "ours.patch").touch()
    source(layout, b"theirs.patch\n# off.patch\n\n")
    table = Table("medium", (replace(RECORD, **changes),))
    if not problem:
        proof.prove(layout, table, COMPONENTS)
        return
    with pytest.raises(PinError) as caught:
        proof.prove(layout, table, COMPONENTS)
    assert problem in caught.value.details


def test_a_patch_of_debian_is_believed_until_its_source_is_there(layout):
    record = replace(RECORD, status=FIXED, patch="theirs.patch", since="1.2-1")
    proof.prove(layout, Table("medium", (record,)), COMPONENTS)


# -- what a release refuses ---------------------------------------------------------------------
@pytest.mark.parametrize("accepts", LEVELS)
@pytest.mark.parametrize("level", [*LEVELS, "unrated"])
@pytest.mark.parametrize("status", [FIXED, NOT_AFFECTED, OPEN])
@pytest.mark.parametrize("accepted", ["", "It has a reason."])
def test_open_above_the_level_is_refused(accepts, level, status, accepted):
    record = replace(RECORD, level=level, status=status, accepted=accepted)
    order = list(LEVELS)
    worst = "critical" if level == "unrated" else level
    is_above = order.index(worst) > order.index(accepts)
    if status != OPEN or accepted or not is_above:
        proof.refuse(Table(accepts, (record,)))
        return
    with pytest.raises(ContentError, match=f"up to level {accepts}, 1 are above") as caught:
        proof.refuse(Table(accepts, (record,)))
    assert caught.value.details == f"CVE-2021-25741 of demo, {level} 8.8: a way out"


# -- the page -----------------------------------------------------------------------------------
def test_page():
    records = (
        replace(RECORD, id="CVE-2022-1", status=FIXED, patch="p.patch", since="1.1"),
        replace(RECORD, id="CVE-2021-10000", accepted="A."),
        replace(RECORD, id="CVE-2021-9999", level="unrated", score=0.0),
        replace(RECORD, id="CVE-2020-1", status=NOT_AFFECTED, why="W."),
    )
    lines = proof.page(Table("medium", records), COMPONENTS).splitlines()
    assert "1 fixed, 1 not affecting what is shipped, 2 open. A release refuses open ones" in (
        "\n".join(lines)
    )
    assert lines[lines.index("## demo 1.2-1+deb12u1") + 2 :] == [
        "| vulnerability | severity | affected | status |",
        "|---|---|---|---|",
        "| CVE-2021-9999: a way out | unrated | < 1.3 | **open**: M. L. |",
        "| CVE-2021-10000: a way out | high 8.8 | < 1.3 | **open**: M. L. Accepted: A. |",
        "| CVE-2020-1: a way out | high 8.8 | < 1.3 | **not affected**: W. |",
        "| CVE-2022-1: a way out | high 8.8 | < 1.3 | **fixed**: `p.patch`, since 1.1 |",
    ]


# -- where a build asks -------------------------------------------------------------------------
@pytest.mark.parametrize(("key", "is_refused"), [("", False), ("A" * 40, True)])
def test_only_a_release_key_refuses(root, tmp_path, key, is_refused):
    ours = tmp_path / "checkout"
    for folder in ("buildchain/pins", "packages"):
        shutil.copytree(root / folder, ours / folder)
    path = ours / "buildchain/pins" / vulnerabilities.NAME
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub("(?m)^accepted = .*$", "", text), encoding="utf-8")
    build = context.load(root, {"SIGNING_KEY": key, "BUILD_ROOT": str(tmp_path / "build")})
    build = replace(build, layout=replace(build.layout, root=ours))
    if not is_refused:
        check._prove_vulnerabilities(build)
        return
    with pytest.raises(ContentError, match="accepts open vulnerabilities"):
        check._prove_vulnerabilities(build)
