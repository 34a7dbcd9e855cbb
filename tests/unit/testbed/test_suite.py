"""A run of Kubernetes' own tests: what the engine and the machines are told."""

import json
from pathlib import Path

import pytest

from tests.conformance import report, suite
from tests.conformance.suite import Suite
from tests.testbed.machine import Machine

FIRST = Machine("first", "", "192.0.2.7", "bed")
AGNHOST, DNSUTILS = "one.invalid/agnhost:2.21", "two.invalid/dnsutils:1.0"
# A machine that has images, and an engine in which the suite leaves a report, or is slow.
DOCKER = """
import json, pathlib, re, time
state = pathlib.Path(sys.argv[0]).parent / "state.json"
known = json.loads(state.read_text())
def keep(known):  # whole, as another process reads it meanwhile
    state.with_suffix(".new").write_text(json.dumps(known))
    state.with_suffix(".new").replace(state)
if argv[0] == "run":
    [folder] = [re.sub(":/report$", "", w[9:]) for w in argv if w.endswith(":/report")]
    report = pathlib.Path(folder)
    known["kubeconfig"] = (report / "kubeconfig").read_text()
    keep(known)
    print("it runs", flush=True)
    while known["slow"] and "stop" not in json.loads(state.read_text()):
        time.sleep(0.05)
    if known["report"]:
        (report / "junit_01.xml").write_text(known["report"])
elif "kill -INT -1" in argv:
    keep({**known, "stop": True})
elif "import" in argv:
    sys.stdin.read()
elif "admin.conf" in argv[-1] and "cat" in argv[-1]:
    print("clusters:\\n- cluster:\\n    server: https://127.0.0.1:7443\\n  name: one")
elif argv[-1].endswith("images list --quiet"):
    print(known["images"])
"""
PASSED = '<testsuite><testcase name="[n] one" time="2"></testcase></testsuite>'


@pytest.fixture
def made(tmp_path):
    """Return what a build leaves."""
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled/images").write_text(f"agnhost {AGNHOST}\ndnsutils {DNSUTILS}\n")
    (tmp_path / "images.tar").write_text("archive")
    folder = tmp_path / "compiled"
    return Suite(folder, Path("/kubectl"), tmp_path / "images.tar", "conformance:1")


@pytest.fixture
def engine(fake_program):
    """Return what makes the engine behave."""

    def behave(*, slow=False, text=PASSED, images=""):
        known = {"slow": slow, "report": text, "images": images}
        (fake_program.folder / "state.json").write_text(json.dumps(known))
        fake_program("docker", DOCKER)
        return lambda: json.loads((fake_program.folder / "state.json").read_text())

    return behave


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "report").mkdir()
    return tmp_path / "report"


def test_a_run(made, engine, folder, fake_program):
    """From outside: another container on the network of the machines, as the administrator."""
    state = engine()
    outcomes = made.run(FIRST, ["[n] one"], folder, processes=4, seconds=60)
    assert [(one.name, one.verdict, one.seconds) for one in outcomes] == [("[n] one", "passed", 2)]
    assert "    server: https://192.0.2.7:6443\n" in state()["kubeconfig"]
    assert not (folder / "kubeconfig").exists(), "nobody finds the administrator's key"
    assert (folder / "output").read_text() == "it runs\n"
    [words] = [argv for argv in fake_program.calls("docker") if argv[0] == "run"]
    assert {"--network=bed", "--nodes=4", "--provider=skeleton", "conformance:1"} <= set(words)
    assert r"--focus=(\[n\] one)$" in words
    assert f"--volume={made.folder}:/suite:ro" in words


def test_one_that_takes_too_long_says_what_it_did(made, engine, folder):
    engine(slow=True)
    outcomes = made.run(FIRST, ["[n] one", "[n] two"], folder, processes=4, seconds=3)
    assert [one.verdict for one in outcomes] == [report.PASSED, report.LEFT_OUT]


def test_one_without_a_report_shows_what_it_printed(made, engine, folder):
    engine(text="")
    suite_itself, one = made.run(FIRST, ["[n] one"], folder, processes=4, seconds=60)
    assert (suite_itself.verdict, suite_itself.said) == (report.FAILED, "it runs")
    assert one.verdict == report.LEFT_OUT


@pytest.mark.parametrize(
    ("there", "times"), [("", 2), (AGNHOST, 2), (f"{AGNHOST} {DNSUTILS} other:1", 0)]
)
def test_machines_get_images_once(made, engine, fake_program, there, times):
    engine(images=there)
    made.provide([FIRST, Machine("second", "", "192.0.2.8", "bed")])
    imports = [argv for argv in fake_program.calls("docker") if "import" in argv]
    assert len(imports) == times
    assert {argv[2] for argv in imports} == ({"first", "second"} if times else set())


def test_without_a_build_there_is_none(tmp_path):
    assert suite.built(tmp_path) is None
    (tmp_path / "receipts").mkdir()
    facts = json.dumps({"facts": {"reference": "conformance:1"}})
    (tmp_path / "receipts/conformance_image.json").write_text(facts)
    found = suite.built(tmp_path)
    assert found is not None
    assert (found.image, found.archive) == ("conformance:1", tmp_path / "conformance/images.tar")
