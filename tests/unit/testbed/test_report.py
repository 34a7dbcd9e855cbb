"""What became of Kubernetes' own tests, from what their processes left."""

import xml.etree.ElementTree as ElementTree

import pytest

from tests.conformance import report
from tests.conformance.report import FAILED, LEFT_OUT, PASSED, Outcome

FIRST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Kubernetes e2e suite" tests="2" failures="1" errors="0" time="9.5">
  <testcase name="[n] one" classname="Kubernetes e2e suite" time="9.25"></testcase>
  <testcase name="[n] two" classname="Kubernetes e2e suite" time="0.5">
    <failure type="Failure">service.go:1 &lt;nil&gt;</failure>
    <system-out>{printed}</system-out>
  </testcase>
  <testcase name="[n] three" time="0"><skipped></skipped></testcase>
</testsuite>"""
SECOND = """<testsuite name="Kubernetes e2e suite">
  <testcase name="[n] one" time="0"><skipped></skipped></testcase>
  <testcase name="[n] three" time="3"></testcase>
</testsuite>"""
BROKEN = """<testsuite name="Kubernetes e2e suite">
  <testcase name="BeforeSuite" time="3"><failure type="Failure">no API</failure></testcase>
</testsuite>"""


def test_processes_share_the_tests(tmp_path):
    printed = "\n".join(f"line {number}" for number in range(100))
    (tmp_path / "junit_01.xml").write_text(FIRST.format(printed=f"{printed}\n{report.DUMP} x"))
    (tmp_path / "junit_02.xml").write_text(SECOND)
    found = report.read(tmp_path)
    assert found["[n] one"] == Outcome("[n] one", PASSED, 9.25)
    assert found["[n] three"] == Outcome("[n] three", PASSED, 3)
    failed = found["[n] two"]
    assert failed.verdict == FAILED
    assert failed.said.splitlines()[0] == "service.go:1 <nil>"
    assert failed.said.splitlines()[1:] == printed.splitlines()[-report.LINES :]


def test_what_is_chosen_and_did_not_run_did_not_pass(tmp_path):
    (tmp_path / "junit_01.xml").write_text(SECOND)
    judged = report.judge(["[n] one", "[n] three", "[n] four"], report.read(tmp_path))
    assert [one.verdict for one in judged] == [LEFT_OUT, PASSED, LEFT_OUT]
    told = report.told(judged).splitlines()
    assert "did not run: [n] one" in told
    assert told[-1] == "1 of 3 passed"


def test_a_suite_that_does_not_begin(tmp_path):
    (tmp_path / "junit_01.xml").write_text(BROKEN)
    (tmp_path / "junit_02.xml").write_text(BROKEN.replace("no API", "Node 1 failed"))
    judged = report.judge(["[n] one"], report.read(tmp_path))
    assert [(one.name, one.verdict) for one in judged] == [
        ("BeforeSuite", FAILED), ("[n] one", LEFT_OUT),
    ]  # fmt: skip
    assert "no API" in report.told(judged)


def test_a_report_that_was_cut(tmp_path):
    (tmp_path / "junit_01.xml").write_text(SECOND[:90])
    with pytest.raises(ElementTree.ParseError):
        report.read(tmp_path)
