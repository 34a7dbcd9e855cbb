"""The Salt tree as the ISO carries it, and its rendering for each platform.

Salt runs in a Python of its own: ``METALK8S_SALT_PYTHON``, an environment made from
``salt/requirements.txt``, or the Python of the tests when it has Salt.
"""

from __future__ import annotations

import concurrent.futures
import functools
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest

HERE = pathlib.Path(__file__).parent
TREE = HERE.parents[1] / "salt"
PLATFORMS: dict[str, dict[str, Any]] = json.loads(
    (HERE / "data/platforms.json").read_text(encoding="utf-8")
)
REFUSALS: list[dict[str, Any]] = json.loads(
    (HERE / "data/refusals.json").read_text(encoding="utf-8")
)
STRANGERS: dict[str, Any] = json.loads((HERE / "data/strangers.json").read_text(encoding="utf-8"))
NETWORKS = {"controlPlane": ["10.99.0.0/24", "10.100.0.0/24"], "workloadPlane": "10.100.0.0/24"}


def sls_names() -> list[str]:
    """Name every state file of the tree as Salt does."""
    files = [path.relative_to(TREE / "states") for path in (TREE / "states").rglob("*.sls")]
    names = {".".join(path.with_suffix("").parts).removesuffix(".init") for path in files}
    return sorted(names - {"top"})


def bootstrap(**more: Any) -> dict[str, Any]:
    """Give the pillar of the first machine, with more in its configuration."""
    node = {"roles": ["bootstrap"]}
    # What whoever deploys or removes a machine says.
    asked = {"node_name": "joining"}
    return {
        "metalk8s": {"bootstrap": {"networks": NETWORKS, **more}, "node": node},
        "orchestrate": asked,
    }


BOOTSTRAP = bootstrap()
VIP = "10.100.0.1"
KEEPALIVED = {"enabled": True, "virtualRouterId": 51, "authPassword": "s3cret"}
VARIANT = "-keepalived"
PROCESSES = 2  # of Salt, which renders one state file after the other
# Each platform as it is, and with a VIP that it has at the moment.
MACHINES: dict[str, dict[str, Any]] = {
    name: {"grains": grains, "pillar": BOOTSTRAP, "sls": sls_names()}
    for name, grains in PLATFORMS.items()
} | {
    f"{name}{VARIANT}": {
        "resolver": "/run/systemd/resolve/resolv.conf",
        "grains": grains | {"ip4_interfaces": {"lo": [VIP, *grains["ip4_interfaces"]["lo"]]}},
        "pillar": bootstrap(apiServer={"host": VIP, "keepalived": KEEPALIVED}),
        # Roles include the rest.
        "sls": [name for name in sls_names() if re.search("[.](keepalived|roles)[.]?", name)],
    }
    for name, grains in PLATFORMS.items()
}
# A machine of two roles, where less is recorded, and one with an engine elsewhere: roles, and what
# the site chose.
CHOICES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "two": (
        ("etcd", "master"),
        {"kube_apiserver": {"audit": {"size": 7}, "event_limits": {"user": {"qps": 3}}}},
    ),
    "elsewhere": (
        ("node",),
        {"container_engine": {"data": "/data/engine", "socket": "/run/site/engine.sock"}},
    ),
}
VERSIONS: dict[str, Any] = json.loads((HERE / "data/versions.json").read_text(encoding="utf-8"))
OWN, OTHERS = "10.100.0.2", {"first": "10.100.0.5", "third": "10.100.0.7"}


def joined(roles: tuple[str, ...]) -> dict[str, Any]:
    """Give the pillar of a machine that joined a cluster of two others, as the master makes it."""
    version = VERSIONS["metalk8s"]["version"]
    masters = ["bootstrap", "etcd", "master"]
    machines = {"node": (OWN, list(roles))}
    machines |= {name: (address, masters) for name, address in OTHERS.items()}
    nodes = {
        name: {
            "roles": has,
            "version": version,
            "address": address,
            "workload_address": "",
            "pod_cidr": "",
        }
        for name, (address, has) in machines.items()
    }
    authorities = ("kubernetes", "etcd", "front_proxy", "repositories", "salt")
    keys = {key.removeprefix("keys/").replace("/", "-") for key in SIGNING_KEYS}
    return {
        "metalk8s": {
            "bootstrap": {"networks": NETWORKS, "ca": {"minion": "first"}},
            "site": {},
            "node": {"version": version, "roles": list(roles)},
            "nodes": nodes,
            "authorities": dict.fromkeys(authorities, "a certificate\n"),
            "signing_keys": dict.fromkeys(keys, "a key\n"),
        }
    }


SIGNING_KEYS = {"keys/metalk8s.asc"} | {
    key
    for releases in VERSIONS["signing_keys"].values()
    for keys in releases.values()
    for key in keys
}
# Machines that joined, by the roles that their Nodes are labelled with.
JOINED = {"worker": ("node",), "infra": ("infra",), "master": ("etcd", "master")}
JOINED_MACHINES: dict[str, dict[str, Any]] = {
    f"{platform}-{name}": {
        "grains": grains,
        "pillar": joined(roles),
        "sls": [
            *(f"metalk8s.roles.{role}{end}" for role in roles for end in ("", ".absent")),
            *("metalk8s.salt-minion", "metalk8s.neighbours", "metalk8s.renewal.certified"),
        ],
    }
    for platform, grains in PLATFORMS.items()
    for name, roles in JOINED.items()
}


def one_of_three(*roles: str) -> dict[str, Any]:
    """Give the pillar of a machine in a cluster with a virtual address and two other masters."""
    masters = ["bootstrap", "etcd", "master"]
    machines = {"node": ("10.100.0.2", [*roles]), "first": ("10.100.0.5", masters)}
    machines["third"] = ("10.100.0.7", ["etcd", "master"])
    nodes = {
        name: {
            "roles": has,
            "version": "",
            "address": address,
            "workload_address": "",
            "pod_cidr": "",
        }
        for name, (address, has) in machines.items()
    }
    pillar = bootstrap(apiServer={"host": VIP, "keepalived": KEEPALIVED}, ca={"minion": "first"})
    authorities = dict.fromkeys(("kubernetes", "etcd", "front_proxy", "repositories", "salt"), "")
    more = {"node": {"roles": [*roles]}, "nodes": nodes, "authorities": authorities}
    return {"metalk8s": pillar["metalk8s"] | more}


# The machine with the authorities by what is pinned in /etc, and what the cluster says of others.
FIRSTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "restored": ({"third": {}, "second": {}}, BOOTSTRAP),
    "among others": ({"worker": {}}, one_of_three("bootstrap")),
}
API_SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
# A name that YAML reads as a number.
NUMBER = "010"


def odd_machines() -> dict[str, dict[str, Any]]:
    """Give machines of which a few state files are of interest."""
    grains = PLATFORMS["debian-12"]
    found: dict[str, dict[str, Any]] = {
        f"first {name}": {
            "grains": grains,
            "pillar": pillar,
            "pins": pins,
            "sls": ["metalk8s.etcd.running"],
        }
        for name, (pins, pillar) in FIRSTS.items()
    }
    for name, files in (("serves", [API_SERVER]), ("will serve", [])):
        found[f"master {name}"] = {
            "grains": grains,
            "pillar": joined(("master",)),
            "files": files,
            "sls": ["metalk8s.neighbours", "metalk8s.roles.master"],
        }
    found[NUMBER] = {
        "grains": grains | {"id": NUMBER},
        "pillar": BOOTSTRAP,
        "sls": ["metalk8s.roles.bootstrap", "metalk8s.renewal.certified", "metalk8s.etcd.absent"],
    }
    return found


# Machines that leave, by their roles.
LEAVING = {"worker": ("node",), "master": ("etcd", "master"), "first": ("bootstrap",)}
# Machines by who keeps the clock: what is said of it, its configuration, and its roles.
CLOCKS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "alone": ({}, {}, ("bootstrap",)),
    "asks": ({}, {"servers": ["192.0.2.7", "192.0.2.8"]}, ("etcd", "master")),
    "follows": ({}, {"servers": ["192.0.2.7"]}, ("node",)),
    "stores": ({}, {}, ("etcd",)),
    "container": ({"is_free": False}, {}, ("master",)),
    "site": ({"other": "ntpsec"}, {"servers": ["192.0.2.7"]}, ("master",)),
    "unmanaged": ({}, {"manage": False}, ("master",)),
}


def clock_machines() -> dict[str, dict[str, Any]]:
    """Give each of them on each platform; who is not alone is one of three."""
    found = {}
    for platform, grains in PLATFORMS.items():
        for name, (clock, time, roles) in CLOCKS.items():
            pillar = BOOTSTRAP if name == "alone" else one_of_three(*roles)
            known = pillar["metalk8s"]
            told = {**known["bootstrap"], "time": time}
            found[f"{platform} clock {name}"] = {
                "grains": grains,
                "clock": clock,
                "pillar": {**pillar, "metalk8s": {**known, "bootstrap": told}},
                "sls": ["metalk8s.clock", "metalk8s.clock.absent", "metalk8s.firewall"],
            }
    return found


@pytest.fixture(scope="session")
def salt_python() -> str:
    """Find a Python that has Salt; only CI insists on one."""
    named = os.environ.get("METALK8S_SALT_PYTHON")
    if named:
        return named
    if importlib.util.find_spec("salt.state" if importlib.util.find_spec("salt") else "salt"):
        return sys.executable
    reason = "salt: not in this Python, and METALK8S_SALT_PYTHON names no other that has it"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def rendered(salt_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Render the tree for every platform, and the map of every odd machine."""
    scratch = tmp_path_factory.mktemp("salt")
    states = scratch / "states"
    shutil.copytree(TREE / "states", states)
    (states / "metalk8s/versions.json").write_text(json.dumps(VERSIONS), encoding="utf-8")
    debian = PLATFORMS["debian-12"]
    machines = MACHINES | {
        case["defect"]: {"grains": case["grains"], "pillar": case["pillar"], "sls": []}
        for case in REFUSALS
    }
    machines |= {
        name: {
            "grains": debian,
            "pillar": {"metalk8s": BOOTSTRAP["metalk8s"] | pillar["metalk8s"]},
            "sls": [],
        }
        for name, pillar in STRANGERS.items()
    }
    machines |= JOINED_MACHINES | clock_machines() | odd_machines()
    for roles, more in CHOICES.values():
        node = {"version": VERSIONS["metalk8s"]["version"], "roles": list(roles)}
        pillar = BOOTSTRAP["metalk8s"] | {"node": node, "site": more}
        machines[" ".join(roles)] = {
            "grains": debian,
            "pillar": {"metalk8s": pillar},
            "sls": [f"metalk8s.roles.{role}{end}" for role in roles for end in ("", ".absent")],
        }
    machines |= {
        f"leaving {name}": {
            "grains": debian,
            "pillar": one_of_three(*roles),
            "sls": [
                *("metalk8s.machine.absent", "metalk8s.machine.subtracted", "metalk8s.keepalived"),
            ],
        }
        for name, roles in LEAVING.items()
    }
    machines["example of pillar"] = {
        "grains": debian,
        "pillar": str(TREE / "pillar.example"),
        "sls": [],
    }
    parts = [
        {name: {**one, "sls": one["sls"][number::PROCESSES]} for name, one in machines.items()}
        for number in range(PROCESSES)
    ]
    folders = [tmp_path_factory.mktemp("salt-process") for _ in parts]
    answer: dict[str, Any] = {}
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        for part in pool.map(functools.partial(_render, salt_python, states), folders, parts):
            for name, found in part.items():
                answer.setdefault(name, found)["sls"].update(found["sls"])
    return answer


def _render(
    salt_python: str, states: pathlib.Path, scratch: pathlib.Path, machines: dict[str, Any]
) -> dict[str, Any]:
    """Render a tree for some machines."""
    request = {
        "states": str(states),
        "pillar": str(TREE / "pillar"),
        "saltenv": f"metalk8s-{VERSIONS['metalk8s']['version']}",
        "scratch": str(scratch),
        "machines": machines,
    }
    run = subprocess.run(
        [salt_python, str(HERE / "salt_render.py")],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(scratch)},
    )
    assert run.returncode == 0, run.stderr
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer
