"""Bad joins, thirty and more: what is wrong with a machine, in a sentence each, all at once."""

from __future__ import annotations

import copy
import os
import pathlib
import shutil
import subprocess
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metalk8s_bootstrap.checks import conflicts, distribution
from metalk8s_bootstrap.checks.disks import INODES
from metalk8s_bootstrap.checks.kernel import CONTROLLERS
from metalk8s_bootstrap.checks.resources import CPUS, DISK, FREE, MEMORY
from metalk8s_bootstrap.configuration import NAME_LENGTH

from .loader import STATES, load

CANDIDATE = load("_modules/metalk8s_candidate")
FITNESS = load("_modules/metalk8s_fitness")
SURVEY = load("_modules/metalk8s_survey")
SCRIPT = STATES / "metalk8s/enrolment/files/survey.sh"
OURS, THEIRS = "a" * 64, "b" * 64
PREFIX = "metalk8s.scality.com/"
ROLE = "node-role.kubernetes.io/"

# -- what the operator says -----------------------------------------------------------------------
PINS = {
    "old": {"address": "10.0.0.9", "machine_id": "0" * 32},
    "first": {"address": "10.0.0.3", "machine_id": "1" * 32},
}
SAID: dict[str, Any] = {
    "here": "bootstrap",
    "versions": ["2.4.0", "2.5.0"],
    "networks": ["10.0.0.0/24", "10.1.0.0/24"],
    "owners": {
        "10.0.0.1": "the bootstrap machine",
        "10.0.0.7": "the API server (apiServer.host)",
        "10.0.0.8": "Node other",
        "10.0.0.9": "old, which joined",
    },
    "pins": PINS,
}


@pytest.fixture
def key(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "key"
    file.write_text("secret")
    file.chmod(0o600)
    return file


def node(key: pathlib.Path, **changes: str | None) -> dict[str, Any]:
    """Give a Node that may join; ``None`` takes an annotation or a label away."""
    annotations = {"ssh-host": "10.0.0.2", "ssh-key-path": str(key), "ssh-sudo": "false"}
    labels = {f"{PREFIX}version": "2.4.0", f"{ROLE}node": ""}
    name = changes.pop("name", "worker")
    for kind, value in changes.items():
        word = kind.replace("_", "-")
        place = {"role": labels, "version": labels}.get(word.partition("-")[0], annotations)
        full = f"{ROLE}{word[5:]}" if word.startswith("role-") else word
        full = f"{PREFIX}version" if word == "version" else full
        if value is None:
            place.pop(full)
        else:
            place[full] = value
    marked = {f"{PREFIX}{word}": value for word, value in annotations.items()}
    return {"metadata": {"name": name, "labels": labels, "annotations": marked}}


DECLARED = {
    "no version": ({"version": None}, "has no label metalk8s.scality.com/version"),
    "version that is not served": (
        {"version": "2.6.0"},
        "is '2.6.0', which this machine does not serve; it serves: 2.4.0, 2.5.0",
    ),
    "unknown role": ({"role_database": ""}, f"label {ROLE}database is no role"),
    "second bootstrap machine": ({"role_bootstrap": ""}, "a cluster has one bootstrap machine"),
    "no address": ({"ssh_host": None}, "has no annotation metalk8s.scality.com/ssh-host"),
    "address that is a name": ({"ssh_host": "worker.lan"}, "which is no IPv4 address"),
    "IPv6": ({"ssh_host": "fe80::1"}, "which is no IPv4 address"),
    "address elsewhere": (
        {"ssh_host": "192.168.0.2"},
        "is 192.168.0.2, which is not in the control plane. Set it to the IPv4 address of the "
        "machine in 10.0.0.0/24, 10.1.0.0/24.",
    ),
    "address of another node": ({"ssh_host": "10.0.0.8"}, "the address of Node other"),
    "address that joined": ({"ssh_host": "10.0.0.9"}, "the address of old, which joined"),
    "virtual address": ({"ssh_host": "10.0.0.7"}, "the address of the API server"),
    "bootstrap's address": ({"ssh_host": "10.0.0.1"}, "the address of the bootstrap machine"),
    "address that moved": (
        {"name": "first", "ssh_host": "10.0.0.4"},
        "is 10.0.0.4, but it joined as 10.0.0.3",
    ),
    "port that is none": ({"ssh_port": "ssh"}, "ssh-port is 'ssh'; expected is a TCP port"),
    "port too high": ({"ssh_port": "65536"}, "ssh-port is '65536'"),
    "user that is an option": ({"ssh_user": "-oProxyCommand=x"}, "ssh-user is '-oProxyCommand=x'"),
    "sudo neither true nor false": ({"ssh_sudo": "yes"}, "ssh-sudo is 'yes'; expected is 'true'"),
    "host key that is none": ({"ssh_host_key": "AAAA"}, "ssh-host-key is 'AAAA'"),
    "no key": ({"ssh_key_path": None}, "ssh-key-path is missing"),
    "key with half a path": ({"ssh_key_path": "id_rsa"}, "is 'id_rsa', which is no whole path"),
    "key that is not there": ({"ssh_key_path": "/no/key"}, "/no/key is no file on this machine"),
    "name of no machine": ({"name": "Worker_1"}, "no machine can have that name"),
    "the bootstrap machine": ({"name": "bootstrap"}, "is the bootstrap machine"),
}


@pytest.mark.parametrize("case", DECLARED)
def test_bad_manifest(case: str, key: pathlib.Path) -> None:
    changes, words = DECLARED[case]
    found = CANDIDATE.problems(node(key, **changes), SAID)
    assert len(found) == 1, found
    assert found[0].startswith(f"Node {changes.get('name', 'worker')}: ")
    assert words in found[0]
    assert found[0].endswith((".", "…"))


def test_key_that_others_read(key: pathlib.Path) -> None:
    key.chmod(0o640)
    (found,) = CANDIDATE.problems(node(key), SAID)
    assert f"{key} is readable by others than root (mode 0640" in found


def test_good_manifests(key: pathlib.Path) -> None:
    """Also of a machine that joined already, and with everything that may be said."""
    more = {"ssh_port": "65535", "ssh_user": "metal-1", "ssh_sudo": "true", "role_etcd": ""}
    whole = node(key, name="first", ssh_host="10.0.0.3", ssh_host_key="ssh-ed25519 AAA=", **more)
    assert CANDIDATE.problems(whole, SAID) == []
    assert CANDIDATE.target(whole) == {
        "name": "first",
        "address": "10.0.0.3",
        "port": 65535,
        "user": "metal-1",
        "key": str(key),
        "sudo": True,
        "host_key": "ssh-ed25519 AAA=",
    }
    plain = CANDIDATE.target(node(key))
    assert (plain["port"], plain["user"], plain["sudo"]) == (22, "root", False)


def test_all_at_once(key: pathlib.Path) -> None:
    bad = node(key, version=None, role_x="", ssh_host="1.2.3.4", ssh_port="0", ssh_key_path="x")
    assert len(CANDIDATE.problems(bad, SAID)) == 5
    assert len(CANDIDATE.unreachable(bad, SAID)) == 3


@pytest.mark.parametrize(
    ("others", "role", "members"),
    [(["bootstrap"], "etcd", 2), (["bootstrap", "etcd"], "etcd", 0), (["bootstrap"], "node", 0)],
)
def test_even_number_of_members(
    key: pathlib.Path, others: list[str], role: str, members: int
) -> None:
    nodes = [node(key, name=f"n{n}", **{f"role_{o}": ""}) for n, o in enumerate(others)]
    new = node(key, **{f"role_{role}": ""})
    found = CANDIDATE.warnings(new, [*nodes, new])
    assert [f"etcd has {members} members" in one for one in found] == [True] * bool(members)


def test_roles_and_addresses(key: pathlib.Path) -> None:
    bare = {"metadata": {"name": "bare"}}
    assert CANDIDATE.roles(bare) == ["node"]
    assert CANDIDATE.addresses(bare) == set()
    one = node(key, **{"role_control-plane": "", "role_master": ""})
    one["status"] = {
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.5"},
            {"type": "Hostname", "address": "worker"},
        ]
    }
    assert CANDIDATE.roles(one) == ["master", "node"]
    assert CANDIDATE.addresses(one) == {"10.0.0.2", "10.0.0.5"}


# -- what the machine says ------------------------------------------------------------------------
FACTS: dict[str, Any] = {
    **SURVEY.parse(""),
    "os": "debian",
    "os_name": "Debian 12",
    "family": "debian",
    "release": "12",
    "user": "0",
    "architecture": "x86_64",
    "systemd": "yes",
    "resolver": "yes",
    "machine_id": "2" * 32,
    "cpus": "2",
    "memory": "4000000",
    "end": "survey",
    "cgroups": "v2 cpu cpuset memory pids",
    "address": ["127.0.0.1", "10.0.0.2"],
    "disk": ["/ 50000000 20000000 3000000 1000000", "/var/lib/etcd 50000000 20000000 0 0"],
    "account": ["root 0"],
    "group": ["root 0"],
    "port": ["0016"],
}
WANTED: dict[str, Any] = {
    "address": "10.0.0.2",
    "begun": False,
    "machine_id": "",
    "offset": (0.1, 0.0),
    "releases": {"debian": ["12"], "redhat": []},
    "authority": OURS,
    "master_key": OURS,
    "machines": {"1" * 32: "first"},
    "versions": {"debian": {"kubelet": "1.20.2-2"}, "redhat": {}},
    "ports": {10250: "kubelet", 2379: "etcd"},
    "accounts": {"metalk8s-etcd": 2379},
    "groups": {"metalk8s-etcd": 2379, "metalk8s-sa-key": 6440},
    "swap": False,
}
RHEL = {"os": "rhel", "os_name": "RHEL 9", "family": "redhat", "release": "9"}
MACHINES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "cut off": ({"end": ""}, {}, "did not tell all"),
    "not root": ({"user": "1000"}, {}, "who logs in there is not root"),
    "EL in a Debian-only medium": (RHEL, {}, "RHEL 9, for which the medium has no packages. Inst"),
    "another release": ({"release": "11"}, {}, "(debian 12)"),
    "another system": ({"family": "", "os_name": ""}, {}, "its operating system is debian"),
    "another processor": ({"architecture": "aarch64"}, {}, "aarch64, not x86_64"),
    "no systemd": ({"systemd": None}, {}, "systemd did not start it"),
    "no id": ({"machine_id": "uninitialized"}, {}, "says uninitialized, which is no id"),
    "a copy of a machine": ({"machine_id": "1" * 32}, {}, "its machine-id is that of first"),
    "same name": ({}, {"machine_id": "3" * 32}, "another machine has joined under this name"),
    "address of nobody": ({}, {"address": "10.0.0.6"}, "no interface with the address 10.0.0.6"),
    "clock ahead": ({}, {"offset": (3600.2, 3600.0)}, "3600.2 s ahead of this machine's; 2 s are"),
    "clock behind": ({}, {"offset": (-2.6, 2.1)}, "2.6 s behind this machine's"),
    "one processor": ({"cpus": "1"}, {}, "1 processor, 2 are needed"),
    "little memory": ({"memory": "2000000"}, {}, "1.9 GiB of memory, 3.5 are needed"),
    "small disk": ({"disk": ["/ 20000000 1 0 0"]}, {}, "20 GB, 40 are needed"),
    "full disk": ({"disk": ["/var/lib/etcd 9 7000000 0 0"]}, {}, "6.7 GiB are free for /var/lib"),
    "many files": ({"disk": ["/var/lib 9 90000000 9 8"]}, {}, "8 more files fit below /var/lib"),
    "swap": ({"swap": ["/dev/sda2"], "later_swap": ["x"]}, {}, "Run `swapoff /dev/sda2`"),
    "swap later": ({"later_swap": ["UUID=1"]}, {}, "swaps to UUID=1 at the next start"),
    "no cgroups": ({"cgroups": "v2 cpu cpuset"}, {}, "controllers memory, pids (cgroups v2)"),
    "no module": ({"lost_module": ["xt_b", "xt_a"]}, {}, "no modules xt_a, xt_b"),
    "SELinux": ({"selinux": "1"}, {}, "SELinux forbids"),
    "no resolver": ({"resolver": None}, {}, "no /etc/resolv.conf"),
    "machine of another cluster": ({"authority": THEIRS}, {"begun": True}, "of another cluster"),
    "ours, but unknown": ({"authority": OURS}, {}, "certificates of this cluster, but is none"),
    "another Salt master": ({"master_key": THEIRS}, {}, "obeys another Salt master"),
    "leftovers of etcd": ({"trace": ["var/lib/etcd", "var/lib/cni"]}, {}, "/var/lib/etcd is of"),
    "leftover program": ({"program": ["usr/local/bin/k3s"]}, {}, "/usr/local/bin/k3s conflicts"),
    "foreign engine": (
        {"package": ["docker-ce 26 installed install"]},
        {},
        "docker-ce 26 is installed; it conflicts with ours. Run `apt-get purge docker-ce`.",
    ),
    "foreign kubelet": ({"package": ["kubelet 1.31 installed install"]}, {}, "ours is 1.20.2-2"),
    "package of nobody's version": (
        {"package": ["kubeadm 1.31 installed install"]},
        {},
        "ours is none",
    ),
    "held package": (
        {"package": ["iptables 1 installed hold"]},
        {"versions": {"debian": {"iptables": "2"}}},
        "iptables is held at 1, the medium has 2",
    ),
    "interrupted dpkg": ({"unfinished": "dpkg"}, {}, "dpkg is in the middle of something"),
    "account's number": ({"account": ["x 2379"]}, {}, "in /etc/passwd, x has number 2379"),
    "account's name": ({"group": ["metalk8s-sa-key 7"]}, {}, "in /etc/group, metalk8s-sa-key has"),
    "port in use": ({"port": ["280A", "0016"]}, {}, "port 10250 is taken there, and needed for k"),
}


def sentences(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    changed = {**copy.deepcopy(FACTS), **facts}
    told = {name: value for name, value in changed.items() if value is not None}
    found: list[str] = FITNESS.problems(told, {**WANTED, **wanted})
    return found


@pytest.mark.parametrize("case", MACHINES)
def test_bad_machine(case: str) -> None:
    facts, wanted, words = MACHINES[case]
    found = sentences(facts, wanted)
    assert len(found) == 1, found
    assert words in found[0]
    assert found[0].endswith((".", "more.", "/proc/swaps"))


def test_good_machine() -> None:
    assert sentences({}, {}) == []
    assert sentences({"swap": ["/dev/sda2"]}, {"swap": True}) == []
    # Not asked what it cannot know: a package that is ours, a port of somebody else's.
    ours = {"package": ["kubelet 1.20.2-2 installed install"], "port": ["0016", "XYZ"]}
    assert sentences(ours, {}) == []
    assert sentences(RHEL, {"releases": {"redhat": ["8", "9"]}}) == []


def test_what_a_run_before_left_is_ours() -> None:
    begun = {"begun": True, "machine_id": FACTS["machine_id"]}
    left = {
        "authority": OURS,
        "master_key": OURS,
        "trace": ["var/lib/etcd", "etc/kubernetes/manifests"],
        "port": ["280A"],
        "unfinished": "dpkg",
        "disk": ["/var/lib/etcd 9 7 8 1"],
    }
    assert sentences(left, begun) == []
    assert len(sentences(left, {})) == 7


def test_all_problems_at_once() -> None:
    """Of three machines at least, nothing is told one by one."""
    found = sentences({"cpus": "1", "swap": ["x"], "port": ["094B"]}, {"offset": (9.0, 8.0)})
    assert len(found) == 4


def test_thirty() -> None:
    assert len(DECLARED) + len(MACHINES) >= 30


def test_same_as_for_the_first_machine() -> None:
    assert (FITNESS.CPUS, FITNESS.MEMORY) == (CPUS, MEMORY)
    assert (FITNESS.DISK, FITNESS.FREE, FITNESS.INODES) == (DISK, FREE, INODES)
    assert set(SURVEY.CONFLICTS) == conflicts.CONFLICTS
    assert SURVEY.SAME_NAME == FITNESS.SAME_NAME == conflicts.SAME_NAME
    assert (SURVEY.PROGRAMS, SURVEY.TRACES) == (conflicts.PROGRAMS, conflicts.TRACES)
    assert conflicts.KEPT == FITNESS.KEPT
    assert set(CONTROLLERS) == FITNESS.CONTROLLERS
    assert set(SURVEY.FAMILIES) == set(distribution.SYSTEMS)
    assert CANDIDATE.NAME_LENGTH == NAME_LENGTH


# -- the survey -----------------------------------------------------------------------------------
@given(st.text())
def test_any_answer_is_read(text: str) -> None:
    """What a machine says may be anything; it has facts or problems, and no traceback."""
    facts = SURVEY.parse(text)
    assert all(isinstance(facts[key], list) for key in SURVEY.MANY)
    assert FITNESS.problems(facts, WANTED)


LINES = st.builds(
    "{}={}".format,
    st.sampled_from([*SURVEY.MANY, "cpus", "memory", "cgroups", "time", "machine_id", "os"]),
    st.text(alphabet="0123456789abcdef /.-x\N{ARABIC-INDIC DIGIT ONE}"),
)


@given(st.lists(LINES), st.floats(0, 2e9), st.floats(0, 100))
def test_any_facts_are_judged(lines: list[str], began: float, took: float) -> None:
    facts = SURVEY.parse("\n".join([*lines, "user=0", "end=survey"]))
    _, certain = SURVEY.offset(facts, began, began + took)
    assert certain >= 0
    assert FITNESS.problems(facts, WANTED)


@given(st.floats(-1e6, 1e6), st.floats(0, 30), st.floats(0, 30))
def test_offset(ahead: float, there: float, back: float) -> None:
    """Never more is certain than is so, and never less than that without the time it took."""
    began = 1.7e9
    facts = {"time": repr(began + there + ahead)}
    estimate, certain = SURVEY.offset(facts, began, began + there + back)
    assert abs(estimate - ahead) <= (there + back) / 2 + 1e-3
    assert certain <= abs(ahead) + 1e-3
    assert certain >= abs(ahead) - (there + back) - 1e-3


def test_survey_of_this_machine(tmp_path: pathlib.Path) -> None:
    """The real script, on whatever this is: what it says is so."""
    (tmp_path / "ca.crt").write_text("-----BEGIN-----\nYQ==\n-----END-----\n")
    asked = {"modules": {"no_such": "/no/sign"}, "modules_on_demand": ["neither"]}
    questions = SURVEY.questions(asked, str(tmp_path / "ca.crt"), str(tmp_path / "no"), ["bash"])
    script = questions + SCRIPT.read_text(encoding="utf-8")
    began = time.time()
    done = subprocess.run(["sh", "-s"], input=script, capture_output=True, text=True, check=True)
    facts = SURVEY.parse(done.stdout)
    assert SURVEY.offset(facts, began, time.time())[1] == 0.0
    assert facts["end"] == "survey"
    assert facts["user"] == str(os.geteuid())
    assert "127.0.0.1" in facts["address"]
    assert "root 0" in facts["account"]
    assert facts["lost_module"].count("no_such") >= 1
    # of the byte a
    assert facts["authority"].startswith("ca978112ca1bbdcafac231b39a23dc4da786eff8")
    assert "master_key" not in facts
    folders = ["/", "/var/lib", "/var/lib/containerd", "/var/lib/etcd"]
    assert [row.split()[0] for row in facts["disk"]] == folders
    assert all(len(row.split()) == 5 for row in facts["disk"])
    if shutil.which("dpkg-query"):
        assert any(row.startswith("bash ") for row in facts["package"])
