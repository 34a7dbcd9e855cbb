"""``deploy-node.sh`` and ``remove-node.sh``: what they ask the runner, what the operator sees.

Stood in for: ``kubectl``, behind which a runner answers what the test says.
"""

import json
import platform
import re
import subprocess
import sys

import pytest
from metalk8s_bootstrap import system
from metalk8s_deployment import command, dialog

from tests.conftest import ROOT

# Notes what it was asked, and answers with files of the test, by the runner's function.
KUBECTL = """\
#!{python}
import json, pathlib, sys
folder, words = pathlib.Path({folder!r}), sys.argv[1:]
if words[1].startswith("--server="):
    del words[1]
assert words[0] == "--kubeconfig={folder}/etc/kubernetes/admin.conf", words
assert words[1] == "--namespace=kube-system"

def answer(name, *asked):
    with (folder / "asked").open("a") as stream:
        stream.write(" ".join([name, *map(json.dumps, asked)]) + "\\n")
    file = folder / "answers" / (f"step-{{asked[1]}}" if name == "step" else name)
    status, _, said = file.read_text().partition(" ")
    sys.stderr.write("a word of kubectl\\n")
    return int(status), said

if words[2] != "exec":
    status, said = answer(words[2])
    sys.stdout.write(said)
    sys.exit(status)
assert words[3:5] == ["--stdin", "salt-master-bootstrap"]
assert words[5:] == ["--", "salt-run", "--out=json", "--log-level=quiet", "metalk8s_deploy.serve"]
if (folder / "deaf").exists():
    sys.exit("it does not listen")
for line in sys.stdin:
    print('a word of Salt\\nmetalk8s_deploy: "heard"', flush=True)
    status, said = answer(*json.loads(line))
    if status:
        sys.stdout.write(said)
        sys.exit(status)
    print(f"metalk8s_deploy: {{said}}", flush=True)
    if (folder / "once").exists():  # the master starts anew
        sys.exit(0)
"""
STEPS = [
    {"id": "enrol", "title": "enrol worker", "done": True},
    {"id": "highstate:worker", "title": "bring worker to its state", "done": False},
    {"id": "neighbours:b", "title": "tell b of it", "done": False},
]
DEPLOYED = [
    f'begin "worker" "deploy" "{platform.node()}"',
    'step "worker" "highstate:worker"',
    'step "worker" "neighbours:b"',
    'end "worker"',
]
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
POD = {"metadata": {"name": "salt-master-bootstrap"}, "status": READY}
STARTING = {"metadata": {"name": "salt-master-x"}, "status": {"conditions": []}}


class Operator:
    """Somebody at the bootstrap machine."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        (folder / "etc/kubernetes").mkdir(parents=True)
        (folder / "etc/kubernetes/admin.conf").touch()
        (folder / "answers").mkdir()
        self.answer("get", {"items": [STARTING, POD]})
        self.answer("apply", "node/worker created")
        self.answer("end", {})
        self.answer("step-highstate:worker", {"changed": 84, "comment": "131 states, 84 changed"})
        self.answer("step-neighbours:b", {"changed": 0, "comment": ""})
        for name in ("begin", "plan"):
            self.answer(name, {"problems": [], "warnings": [], "steps": STEPS})

    def answer(self, name, said, status=0):
        text = said if isinstance(said, str) else json.dumps(said)
        (self.folder / "answers" / name).write_text(f"{status} {text}")

    def asked(self):
        """Return what kubectl and the runner were asked."""
        file = self.folder / "asked"
        return file.read_text().splitlines() if file.exists() else []

    def type(self, *words, user=0):
        """Return the status, and what was said on both streams."""
        status = command.main(words, self.folder, user, patience=0.0, outage=0.0)
        said = self.capsys.readouterr()
        return status, re.sub(r" +\d+\.\d s", " … s", said.out), said.err

    def log(self, kind="deploy"):
        file = self.folder / f"var/log/metalk8s/{kind}-node.log"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def operator(tmp_path, capsys, fake_program, monkeypatch):
    folder = tmp_path / "machine"
    folder.mkdir()
    fake_program("kubectl")
    program = fake_program.folder / "kubectl"
    program.write_text(KUBECTL.format(python=sys.executable, folder=str(folder)))
    monkeypatch.setitem(system.ENVIRONMENT, "PATH", str(fake_program.folder))
    return Operator(folder, capsys)


def test_the_api_server_of_the_machine_is_asked(operator):
    """A virtual address moves while machines join, and what was connected to it hangs."""
    file = operator.folder / "etc/kubernetes/scheduler.conf"
    file.write_text("clusters:\n- cluster:\n    server: https://10.0.0.1:6443\n  name: x\n")
    operator.type("deploy", "worker")
    assert operator.log().count("--server=https://10.0.0.1:6443 ") == len(["get", "exec"])


def test_deploying(operator):
    status, out, err = operator.type("deploy", "worker")
    assert (status, err) == (0, "")
    assert re.sub("after . s", "after … s", out) == (
        "[1/3] enrol worker … s  done already\n"
        "[2/3] bring worker to its state … s  131 states, 84 changed\n"
        "[3/3] tell b of it … s  0 changed\n"
        "worker is what it shall be, after … s; 84 changed. "
        "Log: /var/log/metalk8s/deploy-node.log\n"
    )
    # Salt is started once for all of it.
    assert operator.asked() == ["get", *DEPLOYED]
    assert "step 2/3: bring worker to its state" in operator.log()
    assert (operator.folder / "var/log/metalk8s/deploy-node.log").stat().st_mode & 0o777 == 0o600


def test_a_step_starts_the_master_anew(operator):
    """The next question is for the new one, as soon as it is ready."""
    (operator.folder / "once").touch()
    status, _, err = operator.type("deploy", "worker")
    assert (status, err) == (0, "")
    assert operator.asked() == [one for asked in DEPLOYED for one in ("get", asked)]


@pytest.mark.parametrize(
    ("words", "action"), [(["worker"], "remove"), (["--dead", "worker"], "remove_dead")]
)
def test_removing(operator, words, action):
    status, out, _ = operator.type("remove", *words)
    assert status == 0
    assert "worker has left the cluster, after" in out
    assert operator.asked()[1] == f'begin "worker" "{action}" "{platform.node()}"'
    assert operator.log("remove")


def test_manifest(operator, tmp_path):
    manifest = tmp_path / "worker.yaml"
    manifest.touch()
    assert operator.type("deploy", "--manifest", str(manifest), "worker")[0] == 0
    assert operator.asked()[0] == "apply"
    operator.answer("apply", "no Node", status=1)
    status, _, err = operator.type("deploy", f"--manifest={manifest}", "worker")
    assert status == 31
    assert f"the manifest {manifest} cannot be applied" in err


def test_check(operator):
    """Everything that is wrong, and what is known; nothing is begun, nothing written."""
    facts = {"os_name": "Debian 12", "addresses": ["10.0.0.2"], "joined_before": False}
    operator.answer("check", {"problems": ["A.", "B."], "warnings": ["C."], "facts": facts})
    status, out, err = operator.type("deploy", "--check", "worker")
    assert status == 22
    assert err == (
        "deploy-node.sh: warning: C.\ndeploy-node.sh: error: A.\ndeploy-node.sh: error: B.\n"
        "deploy-node.sh: 2 problems; nothing was changed\n"
    )
    assert out == (
        "  addresses        10.0.0.2\n  joined before    False\n  os name          Debian 12\n"
    )
    operator.answer("check", {"problems": [], "warnings": [], "facts": {}})
    assert operator.type("deploy", "worker", "--check")[:2] == (
        0,
        "deploy-node.sh: worker may join; nothing was changed\n",
    )
    assert operator.asked() == ["get", 'check "worker"'] * 2
    assert operator.log() == ""


def test_dry_run(operator):
    status, out, _ = operator.type("remove", "--dry-run", "worker")
    assert (status, out) == (
        0,
        "[1/3] enrol worker  (done already)\n[2/3] bring worker to its state\n"
        "[3/3] tell b of it\nremove-node.sh: this is what would be done; nothing was changed\n",
    )
    assert operator.asked() == ["get", 'plan "worker" "remove"']
    operator.answer("plan", {"problems": ["A."], "warnings": [], "steps": []})
    status, out, err = operator.type("remove", "--dry-run", "worker")
    assert (status, out) == (22, "")
    assert err.endswith("remove-node.sh: 1 problem; nothing was changed\n")


def test_problems_at_the_beginning(operator):
    operator.answer("begin", {"problems": ["Another run has the lease."], "warnings": []})
    status, out, err = operator.type("deploy", "worker")
    assert (status, out) == (22, "")
    assert "error: Another run has the lease." in err
    assert operator.asked()[-1] == f'begin "worker" "deploy" "{platform.node()}"'
    assert "Another run has the lease." in operator.log()


def test_failed_step(operator):
    """It is told which, and the lease is given back; what came before is not done again."""
    operator.answer("step-neighbours:b", {"failed": "b does not answer."})
    status, _, err = operator.type("deploy", "worker")
    assert status == 31
    assert err == (
        'deploy-node.sh: error: step 3 of 3, "tell b of it": b does not answer.\n'
        "    The log /var/log/metalk8s/deploy-node.log has more. "
        "Mend it and run deploy-node.sh again: it goes on from here.\n"
    )
    assert operator.asked()[-1] == 'end "worker"'
    assert "FAILED: tell b of it: b does not answer." in operator.log()


@pytest.mark.parametrize(
    ("name", "said", "status", "words"),
    [
        ("get", "", 1, "the API server does not answer: a word of kubectl. Is the cluster up?"),
        ("get", "[]", 0, "Is the cluster up?"),
        ("get", {"items": []}, 0, "the Salt master is not running (0 pods, none is ready)"),
        ("get", {"items": [STARTING]}, 0, "(1 pods, none is ready)"),
        ("begin", "", 1, "metalk8s_deploy.begin gave no answer in salt-master-bootstrap: a word"),
        ("begin", '"x\\nException: it broke"', 0, "begin gave no answer in salt-master-bootstrap:"),
        ("begin", '"x\\nException: it broke"', 0, "Exception: it broke\n"),
        ("step-highstate:worker", "Traceback", 1, "metalk8s_deploy.step gave no answer"),
    ],
)
def test_no_cluster(operator, name, said, status, words):
    operator.answer(name, said, status)
    found, _, err = operator.type("deploy", "worker")
    assert found == 21
    assert words in err
    assert err.startswith("deploy-node.sh: error: ")
    assert len(err.splitlines()) == 1


def test_a_master_that_does_not_listen(operator):
    """It is tried twice, and not for ever."""
    (operator.folder / "deaf").touch()
    status, _, err = operator.type("deploy", "worker")
    assert (status, operator.asked()) == (21, ["get", "get"])
    assert "begin gave no answer in salt-master-bootstrap: it does not listen" in err


def test_not_the_place(operator):
    status, _, err = operator.type("deploy", "worker", user=1000)
    assert (status, "runs as user 1000, not as root" in err) == (20, True)
    (operator.folder / "etc/kubernetes/admin.conf").unlink()
    status, _, err = operator.type("deploy", "worker")
    assert (status, "Run it on the bootstrap machine" in err) == (20, True)


def test_no_kubectl(operator, monkeypatch):
    monkeypatch.setitem(system.ENVIRONMENT, "PATH", str(operator.folder))
    status, _, err = operator.type("deploy", "worker")
    assert (status, err) == (1, "deploy-node.sh: error: there is no kubectl on this machine\n")


def test_two_at_a_time(operator):
    with system.locked(operator.folder / command.LOCK, 0.0):
        status, _, err = operator.type("remove", "worker")
    assert (status, "another run holds" in err) == (30, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["deploy"], "required: NODE"),
        (["deploy", "a", "b"], "unrecognized arguments: b"),
        (["deploy", "--dead", "a"], "unrecognized arguments: --dead"),
        (["remove", "--check", "a"], "unrecognized arguments: --check"),
        (["deploy", "--manifest", "/no/file", "a"], "--manifest /no/file: no such file"),
        (["deploy", "--check", "--manifest", "x", "a"], "--check and --dry-run change nothing"),
    ],
)
def test_usage(operator, words, said):
    with pytest.raises(SystemExit) as ended:
        operator.type(*words)
    assert ended.value.code == 1
    assert said in operator.capsys.readouterr().err


def test_interrupted(operator, monkeypatch):
    """The runner may still be at it: the lease stays."""

    hear = dialog.Dialog.hear

    def heard(on):
        answer = hear(on)
        if operator.asked()[-1].startswith("step"):
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(dialog.Dialog, "hear", heard)
    status, _, err = operator.type("deploy", "worker")
    assert (status, "it was interrupted" in err) == (31, True)
    assert 'end "worker"' not in operator.asked()


@pytest.mark.parametrize("kind", ["deploy", "remove"])
def test_scripts(kind, tmp_path):
    """They find their package wherever they are called from, and end with its status."""
    script = ROOT / f"salt/scripts/{kind}-node.sh"
    done = subprocess.run(["sh", script, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: {kind}-node.sh ")
    for status in ("20", "21", "22", "30", "31"):
        assert f"\n  {status}   " in done.stdout
    assert f"/var/log/metalk8s/{kind}-node.log" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    done = subprocess.run(["sh", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("dirname", "sh"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    environment = {"PATH": str(tools)}
    done = subprocess.run(
        ["/bin/sh", script, "worker"], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, "has no Python 3.9" in done.stderr) == (1, True)
