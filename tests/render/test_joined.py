"""Machines that joined a cluster: what is other on them than on the first one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.salt.loader import load

from .conftest import JOINED, JOINED_MACHINES, OTHERS, OWN, PLATFORMS
from .test_golden import GOLDEN, compare
from .test_tree import HEADER, files_of, states_of

pytestmark = pytest.mark.render

joined_machine = pytest.mark.parametrize("machine", JOINED_MACHINES)
FIRST = OTHERS["first"]
SOURCE = "/etc/apt/sources.list.d/metalk8s.sources"


@joined_machine
def test_compiles(rendered: dict[str, Any], machine: str) -> None:
    """Each state file alone, with arguments that Salt knows and files that say who wrote them."""
    assert rendered[machine]["errors"] == []
    for name, sls in rendered[machine]["sls"].items():
        assert sls["errors"] == [], name
        assert sls["states"], name
    origins: dict[str, set[str]] = {}
    for state in states_of(rendered, machine):
        assert state["unknown"] == []
        assert re.fullmatch(r"[A-Z][^:.]* [^:.]*[A-Za-z0-9]", state["id"])
        origins.setdefault(state["id"], set()).add(state["sls"])
    assert {name: files for name, files in origins.items() if len(files) > 1} == {}
    for path, text in files_of(rendered, machine).items():
        assert HEADER[2:] in "\n".join(text.splitlines()[:2]), path


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(("name", "roles"), JOINED.items())
def test_highstate_applies_the_roles(
    rendered: dict[str, Any], platform: str, name: str, roles: tuple[str, ...]
) -> None:
    """By the labels of its Node, and a minion that has no master beside it."""
    top = rendered[f"{platform}-{name}"]["top"]
    assert set(top) >= {f"metalk8s.roles.{role}" for role in roles} | {"metalk8s.salt-minion"}
    assert "metalk8s.roles.bootstrap" not in top
    assert "metalk8s.salt-master" not in top


@joined_machine
def test_no_key_of_an_authority(rendered: dict[str, Any], machine: str) -> None:
    """It makes none, and knows all of them by their certificates."""
    states = list(states_of(rendered, machine))
    functions = {state["function"] for state in states}
    assert not functions & {"metalk8s_pki.authority", "metalk8s_authorities.intact"}
    assert "metalk8s_credentials.encryption_configuration" not in functions
    authorities = rendered[machine]["map"]["pki"]["authorities"].values()
    forward = [s for s in states if not s["sls"].endswith(".absent")]
    names = {state["arguments"]["name"] for state in forward}
    assert names >= {f"{authority['path']}.crt" for authority in authorities}
    assert not names & {f"{authority['path']}.key" for authority in authorities}
    secret = {s["arguments"]["secret"] for s in states if "secret" in s["arguments"]}
    assert secret == ({"service_accounts", "encryption"} if "master" in machine else set())


@joined_machine
def test_nothing_points_at_itself(rendered: dict[str, Any], machine: str) -> None:
    """What only the first machine has is looked for there; the API server, behind the balancer."""
    known = rendered[machine]["map"]
    files = files_of(rendered, machine)
    assert f"\nmaster: {FIRST}\n" in files["/etc/salt/minion.d/metalk8s.conf"]
    assert known["bootstrap_machine"] == {"name": "first", "address": FIRST}
    is_master = "master" in machine
    assert known["kubelet"]["api_server"] == "https://127.0.0.1:7443"
    masters = [OWN, *OTHERS.values()] if is_master else [*OTHERS.values()]
    assert known["networks"]["control_plane"]["masters"] == masters
    members = {**({"node": OWN} if is_master else {}), **OTHERS}
    assert known["etcd"]["members"] == members
    servers = [f"https://{address}:{known['repositories']['port']}" for address in masters]
    assert known["repositories"]["servers"] == servers
    if machine.startswith("debian"):
        assert f"URIs: https://{FIRST}:" in files[SOURCE]
    else:
        assert f"\nbaseurl=https://{FIRST}:" in files["/etc/yum.repos.d/metalk8s.repo"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_enrolment_writes_what_the_states_keep(rendered: dict[str, Any], platform: str) -> None:
    """Where packages come from is written before there is Salt; the highstate changes nothing."""
    machine = f"{platform}-worker"
    known, files = rendered[machine]["map"], files_of(rendered, machine)
    repo = known["repo"]
    folder = f"{repo['key_folder']}/"
    keys = dict.fromkeys((key.removeprefix(folder) for key in repo["signing_keys"]), "")
    site = {
        "generated": known["generated"],
        "url": repo["url"],
        "host": repo["host"],
        "repo": {**repo, "keys": keys},
        "authority": f"{known['pki']['authorities']['repositories']['path']}.crt",
    }
    sources = load("_modules/metalk8s_delivery").sources(known["os_family"], site)
    assert sources == {path: files[path] for path in sources}


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", JOINED)
def test_golden(rendered: dict[str, Any], platform: str, name: str) -> None:
    """Only what is another than on the first machine is kept."""
    machine, first = f"{platform}-{name}", files_of(rendered, platform)
    texts = {
        f"files{path}": text
        for path, text in files_of(rendered, machine).items()
        if first.get(path) != text
    }
    for sls, found in rendered[machine]["sls"].items():
        lines = [f"{state['function']:<18} {state['id']}\n" for state in found["states"]]
        texts[f"{sls}.txt"] = "".join(lines)
    compare(texts, GOLDEN / machine)
