import pytest

from buildchain.quality import rings
from buildchain.quality.rings import Case, Timetable

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" tests="2" time="2.0">
<testcase classname="tests.unit.test_a" name="test_one[&lt;x&gt;]" time="0.25" />
<testcase classname="tests.unit.test_b" name="test_two" time="1.5"><skipped /></testcase>
</testsuite></testsuites>
"""


def test_a_report_is_read(tmp_path):
    report = tmp_path / "unit.xml"
    report.write_text(REPORT)
    assert rings.cases("unit", report) == (
        Case("unit", "test_a", "test_one[<x>]", 0.25),
        Case("unit", "test_b", "test_two", 1.5),
    )
    assert rings.cases("unit", tmp_path / "none.xml") == ()


def test_rings_are_told_at_the_end(tmp_path, recorded):
    """All of those that were run, and the slowest tests of all of them."""
    table = Timetable()
    for name in ("unit", "render"):
        with table.ring(name, tmp_path / f"{name}.xml"):
            (tmp_path / f"{name}.xml").write_text(REPORT.replace("0.25", str(len(name))))
    lines = recorded.lines[-1].splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["ring", "unit", "render", "in"]
    assert [line.split()[-1] for line in lines[1:4]] == ["2", "2", "4"]
    assert lines[4] == "the 4 slowest tests:"
    assert lines[5] == "      6.0 s  render      test_a: test_one[<x>]"
    assert [line.split()[0] for line in lines[5:]] == ["6.0", "4.0", "1.5", "1.5"]


def test_a_ring_that_fails_is_told(tmp_path, recorded):
    """What another run has left is not taken for its report."""
    report = tmp_path / "unit.xml"
    report.write_text(REPORT)
    with pytest.raises(ZeroDivisionError), Timetable().ring("unit", report):
        raise ZeroDivisionError
    assert [line.split()[-1] for line in recorded.lines[-1].splitlines()[1:3]] == ["0", "0"]


def test_no_more_than_the_slowest(tmp_path, recorded):
    report = tmp_path / "unit.xml"
    row = '<testcase classname="t" name="n{0}" time="{0}" />'
    with Timetable().ring("unit", report):
        report.write_text(f"<testsuite>{''.join(map(row.format, range(100)))}</testsuite>")
    lines = recorded.lines[-1].splitlines()
    assert len(lines) == 3 + 1 + rings.SHOWN
    assert [lines[4].split()[-1], lines[-1].split()[-1]] == ["n99", "n70"]


def test_what_failed_is_told_last(tmp_path, recorded):
    """Since the end is what is left of a long transcript."""
    report = tmp_path / "unit.xml"
    row = '<testcase classname="t.a" name="{}" time="1">{}</testcase>'
    with Timetable().ring("unit", report):
        rows = (
            row.format("one", '<failure message="assert 1 == 2&#10;more">trace</failure>'),
            row.format("two", "<skipped />"),
            row.format("three", "<error>trace</error>"),
        )
        report.write_text(f"<testsuite>{''.join(rows)}</testsuite>")
    lines = recorded.lines[-1].splitlines()
    assert [line.split() for line in lines[-3:]] == [
        ["failed:"],
        ["unit", "a:", "one:", "assert", "1", "==", "2"],
        ["unit", "a:", "three:", "error"],
    ]
