"""What is wrong with a cluster, found in what is known of it."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from .deployment import READY, Runner, World, member, node
from .deployment import runner as runner
from .deployment import world as world
from .loader import load
from .test_kubernetes import cluster as cluster
from .test_kubernetes import kubernetes as kubernetes

DOCTOR = load("_utils/metalk8s_doctor")
SCRIPT = pathlib.Path(__file__).parents[3] / "salt/scripts/doctor.sh"
GIB = 1 << 30


def machine(name: str, *roles: str) -> dict[str, Any]:
    return {
        "name": name,
        "roles": list(roles) or ["node"],
        "version": "2.4.0",
        "is_deployed": True,
        "is_ready": True,
        "is_schedulable": True,
        "conditions": {"Ready": "True", "DiskPressure": "False"},
    }


def minion(**more: Any) -> dict[str, Any]:
    return {
        "certificates": [{"path": "/x.crt", "days": 80.0}],
        "disks": [{"path": "/", "free": 50 * GIB, "size": 100 * GIB}],
        "services": {"kubelet": True},
        "versions": {"kubelet": "1.20.2-2", "salt-minion": ""},
        "api_server": None,
        "offset": 0.5,
        "doubt": 0.4,
        "clock": clock(),
        **more,
    }


def clock(**more: Any) -> dict[str, Any]:
    return {
        "keeper": "chrony",
        "is_ours": True,
        "is_free": True,
        "synchronised": True,
        "stratum": 3,
        "sources": {"192.0.2.7": True, "10.0.0.2": True},
        "preferred": ["192.0.2.7"],
        **more,
    }


def other(**more: Any) -> dict[str, Any]:
    return {"keeper": "ntpsec", "is_ours": False, "is_free": True, **more}


SILENT = {"10.0.0.2": False, "192.0.2.7": False}


def fine() -> dict[str, Any]:
    members = [
        {**member(name), "leader": name == "boot", "problem": ""} for name in ("boot", "m1", "m2")
    ]
    machines = [machine("boot", "bootstrap"), machine("m1", "etcd"), machine("m2", "etcd")]
    return {
        "machines": machines,
        "members": members,
        "minions": {one["name"]: minion() for one in machines},
    }


def spoil(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(facts: Any) -> None:
        for key in path[:-1]:
            facts = facts[key]
        facts[path[-1]] = value

    return change


CASES: list[tuple[Callable[[dict[str, Any]], None], list[tuple[str, str, str]]]] = [
    (lambda facts: None, []),
    (
        spoil("members_problem", value="Nobody says."),
        [("error", "etcd", "Nobody says.")],
    ),
    (spoil("members", 0, "leader", value=False), [("error", "etcd", "no leader")]),
    (
        spoil("members", 2, "healthy", value=False),
        [("error", "etcd", "2 of 3 members are healthy"), ("error", "m2", "not healthy: It does")],
    ),
    (
        spoil("members", 2, "learner", value=True),
        [
            ("warning", "etcd", "2 members vote: with one less"),
            ("warning", "m2", "only learns"),
        ],
    ),
    (spoil("machines", 1, "version", value="2.3.0"), [("warning", "m1", "of version 2.3.0, the")]),
    (spoil("machines", 1, "is_ready", value=False), [("error", "m1", "Node is not ready")]),
    (spoil("machines", 1, "is_deployed", value=False), [("warning", "m1", "never deployed")]),
    (spoil("machines", 1, "is_schedulable", value=False), [("warning", "m1", "cordoned")]),
    (
        spoil("machines", 1, "conditions", "DiskPressure", value="True"),
        [("error", "m1", "condition DiskPressure")],
    ),
    (spoil("minions", "m1", value={"problem": "gone"}), [("error", "m1", "not answer: gone")]),
    (spoil("minions", value={}), [("error", name, "not asked") for name in ("boot", "m1", "m2")]),
    (
        spoil("minions", "m1", "versions", "kubelet", value="1.20.1-1"),
        [("warning", "m1", "Its kubelet is 1.20.1-1")],
    ),
    (spoil("minions", "m1", "services", "kubelet", value=False), [("error", "m1", "kubelet does")]),
    (spoil("minions", "m1", "api_server", value=False), [("error", "m1", "API server is not")]),
    (spoil("minions", "m1", "api_server", value=True), []),
    (
        spoil("minions", "m1", "disks", 0, "free", value=14 * GIB),
        [("warning", "m1", "/ has 14 % free, 14336 MiB")],
    ),
    (spoil("minions", "m1", "disks", 0, "free", value=4 * GIB), [("error", "m1", "4 % free")]),
    (spoil("minions", "m1", "offset", value=-3.0), [("warning", "m1", "off by -3 s")]),
    (spoil("minions", "m1", "offset", value=3600.0), [("error", "m1", "off by +3600 s")]),
    (
        spoil("minions", "m1", "clock", value=clock(keeper="")),
        [("error", "m1", "chrony, which is to keep its clock, does not run")],
    ),
    # Nobody asked us to.
    (spoil("minions", "m1", "clock", value=clock(keeper="", is_ours=False)), []),
    # Of a version that did not ask.
    (lambda facts: facts["minions"]["m1"].pop("clock"), []),
    (
        spoil("minions", "m1", "clock", value=clock(synchronised=None)),
        [("warning", "m1", "does not say how that goes")],
    ),
    (
        spoil("minions", "m1", "clock", value=clock(synchronised=False, sources=SILENT)),
        [("warning", "m1", "clock follows answers: 10.0.0.2, 192.0.2.7")],
    ),
    (
        spoil("minions", "m1", "clock", value=clock(synchronised=False)),
        [("warning", "m1", "chrony, which keeps its clock, is not synchronised")],
    ),
    (
        spoil("minions", "m1", "clock", value=clock(synchronised=False, sources={}, preferred=[])),
        [("warning", "m1", "is not synchronised")],
    ),
    (
        spoil("minions", "m1", "clock", value=other(synchronised=False)),
        [("warning", "m1", "ntpsec, which keeps its clock, is not synchronised")],
    ),
    (spoil("minions", "m1", "clock", value=other(synchronised=True)), []),
    (
        spoil("minions", "m1", "clock", value=clock(sources=SILENT, stratum=10)),
        [("warning", "m1", "servers answers (192.0.2.7): the cluster keeps a time of its own (st")],
    ),
    # One of two masters is away, and none of the site's servers was named.
    (
        spoil(
            "minions",
            "m1",
            "clock",
            value=clock(sources={"10.0.0.2": False, "10.0.0.3": True}, preferred=[]),
        ),
        [],
    ),
    # The answer took as long as the clock may be off.
    (lambda facts: facts["minions"]["m1"].update(offset=9.0, doubt=8.0), []),
    (
        spoil("minions", "m1", "certificates", 0, "days", value=14.4),
        [("warning", "m1", "/x.crt ends in 14 days")],
    ),
    (spoil("minions", "m1", "certificates", 0, "days", value=2.0), [("error", "m1", "in 2 days")]),
    (
        spoil("minions", "m1", "certificates", 0, "days", value=-2.0),
        [("error", "m1", "2 days ago")],
    ),
    (
        spoil("minions", "m1", "certificates", 0, value={"path": "/x", "problem": "torn"}),
        [("warning", "m1", "/x cannot be read: torn")],
    ),
]


@pytest.mark.parametrize(("change", "expected"), CASES)
def test_findings(change: Callable[[dict[str, Any]], None], expected: list[Any]) -> None:
    """One thing that is wrong is what is found, with what to do."""
    facts = fine()
    change(facts)
    found = DOCTOR.findings(facts)
    assert [(one["severity"], one["subject"]) for one in found] == [one[:2] for one in expected]
    for one, (_, _, text) in zip(found, expected, strict=True):
        assert text in one["finding"]
        assert one["remedy"]
    worst = expected[0][0] if expected else "fine"
    assert DOCTOR.page(facts, found).splitlines()[-1] == f"Verdict: {worst}"


def test_the_page() -> None:
    """Errors first; who leads."""
    facts = fine()
    facts["machines"][2]["is_schedulable"] = False
    facts["machines"][2]["is_ready"] = False
    facts["minions"]["m1"]["clock"] = other(synchronised=True)
    facts["minions"]["m2"]["clock"] = clock(is_free=False)
    page = DOCTOR.page(facts, DOCTOR.findings(facts)).splitlines()
    assert page[:5] == [
        "Machines: 3, 2 ready",
        "etcd: 3 members, 3 vote, leader boot",
        "Clocks: kept by chrony on 1, ntpsec on 1, the host on 1",
        "",
        "ERROR m2: Its Node is not ready.",
    ]
    assert page[7] == "WARNING m2: It is cordoned: no pods come to it."


# -- a machine -------------------------------------------------------------------------------------
def test_facts(tmp_path: pathlib.Path) -> None:
    """Files of certificates and parts of kubeconfigs; disks once; services that there are."""
    pki = tmp_path / "etc/kubernetes/pki/etcd"
    pki.mkdir(parents=True)
    (pki / "server.crt").write_text("good")
    (pki / "broken.crt").write_text("bad")
    user = "users: [{user: {client-certificate-data: Z29vZA==}}]"
    (tmp_path / "etc/kubernetes/admin.conf").write_text(user)
    (tmp_path / "etc/kubernetes/controller-manager.conf").write_text("{}")
    asked: list[str] = []

    def read(text: str) -> dict[str, str]:
        return {"good": {"not_after": "2099-01-01 00:00:00"}}[text]

    def ready(kubeconfig: str) -> bool:
        asked.append(kubeconfig)
        return True

    module = load(
        "_modules/metalk8s_health",
        salt={
            "x509.read_certificate": read,
            "service.available": lambda name: name != "containerd",
            "service.status": lambda name: name == "kubelet",
            "pkg.version": lambda name: "1",
            "metalk8s_kubernetes.ready": ready,
            "metalk8s_clock.status": clock,
        },
    )
    module.ROOT = str(tmp_path)
    facts = module.facts()
    found = {pathlib.Path(one["path"]).name: one for one in facts["certificates"]}
    assert set(found) == {"admin.conf", "broken.crt", "controller-manager.conf", "server.crt"}
    assert found["server.crt"]["days"] == pytest.approx(found["admin.conf"]["days"], abs=0.2)
    assert 20000 < found["server.crt"]["days"] < 40000
    assert "KeyError" in found["broken.crt"]["problem"]
    assert facts["services"] == {"kubelet": True, "salt-minion": False}
    assert facts["clock"] == clock()
    [disk] = facts["disks"]
    assert 0 < disk["free"] < disk["size"]
    assert (facts["api_server"], asked) == (None, [])
    manifest = tmp_path / module.API_SERVER
    manifest.parent.mkdir()
    manifest.touch()
    assert module.facts()["api_server"] is True
    assert asked == [str(tmp_path / module.BESIDE)]
    assert json.loads(json.dumps(facts)) == facts


# -- the Salt master -------------------------------------------------------------------------------
@pytest.fixture
def report(world: World, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load the runner, with two machines of which one does not answer."""
    key = types.ModuleType("salt.key")
    key.get_key = lambda opts: types.SimpleNamespace(  # type: ignore[attr-defined]
        list_keys=lambda: {"minions": ["boot", "w"]}
    )
    monkeypatch.setitem(sys.modules, "salt.key", key)
    monkeypatch.setattr(sys.modules["salt"], "key", key, raising=False)
    world.put(node("w"))
    said = {key: value for key, value in minion().items() if key not in ("offset", "doubt")}
    world.answers["boot", "metalk8s_health.facts"] = lambda: {**copy.deepcopy(said), "time": 1.0}
    world.members[0].update(leader=True, problem="")
    return load("_runners/metalk8s_doctor", utils=runner.deploy.__utils__)


def test_report(world: World, report: Any) -> None:
    """Everything that is known, and what is wrong with it."""
    found = report.report()
    texts = [(one["subject"], one["finding"]) for one in found["findings"]]
    assert found["verdict"] == "error"
    [clock] = [text for name, text in texts if name == "boot"]
    assert clock.startswith("Its clock is off by -")
    assert [text for name, text in texts if name == "w"] == [
        "Its Salt minion does not answer: "
        "The minion of w did not return from metalk8s_health.facts."
    ]
    assert found["facts"]["machines"][0]["conditions"] == {READY["type"]: "True"}
    assert report.page().endswith("Verdict: error")


def test_report_without_an_api_server(world: World, report: Any) -> None:
    """Is the finding; minions that the Salt master knows are asked all the same."""
    world.api.down = True
    found = report.report()
    assert "does not answer" in found["findings"][0]["finding"]
    assert set(found["facts"]["minions"]) == {"boot", "w"}
    assert [one["name"] for one in found["facts"]["members"]] == ["boot"]


# -- the script ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "answer", "status"),
    [
        ([], "Machines: 1\n\nVerdict: fine", 0),
        ([], "x\nVerdict: warning", 1),
        ([], "x\nVerdict: error", 2),
        (["--json"], '{\n    "verdict": "fine"\n}', 0),
        (["--json"], '{"verdict": "error"}', 2),
        ([], "'metalk8s_doctor.page' is not available.", 3),
        ([], "", 3),
        (["--all"], "Verdict: fine", 3),
        (["--json", "x"], "Verdict: fine", 3),
        (["--help"], "", 0),
    ],
)
def test_script(tmp_path: pathlib.Path, words: list[str], answer: str, status: int) -> None:
    """It prints what the Salt master says, and its status says how bad it is."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        '#!/bin/sh\ncase "$*" in\n*exec*) echo "$*" >> "$ASKED"; cat "$ANSWER" ;;\n'
        "*) printf pod ;;\nesac\n"
    )
    kubectl.chmod(0o755)
    (tmp_path / "answer").write_text(answer)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "ANSWER": str(tmp_path / "answer"),
        "ASKED": str(tmp_path / "asked"),
    }
    run = subprocess.run(
        ["sh", str(SCRIPT), *words], capture_output=True, text=True, check=False, env=environment
    )
    assert run.returncode == status, run
    if status < 3 and answer:
        assert run.stdout == f"{answer}\n"
        function = "report" if words else "page"
        assert "exec pod -- salt-run" in (tmp_path / "asked").read_text()
        assert f"metalk8s_doctor.{function}" in (tmp_path / "asked").read_text()


def test_script_without_a_cluster(tmp_path: pathlib.Path) -> None:
    """Is not an error of the cluster's machines: nothing could be found out."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho refused >&2\nexit 1\n")
    kubectl.chmod(0o755)
    run = subprocess.run(
        ["sh", str(SCRIPT)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert run.returncode == 3
    assert "refused" in run.stderr
    assert "the API server does not answer" in run.stderr
