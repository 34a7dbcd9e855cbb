"""Whatever a state writes, its folder is there by then, and who may read it is said.

A machine has what its required packages bring; packages and former states bring the rest. Salt
would make folders (``makedirs``) and files as the umask has it, where nothing says how.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import MACHINES
from .test_tree import ROLES

pytestmark = pytest.mark.render

# Of base-files, passwd and the like, the package manager and systemd, without which nothing starts.
GIVEN = {
    *("/", "/etc", "/opt", "/run", "/srv", "/usr", "/var", "/var/lib", "/var/log"),
    *("/etc/apt/sources.list.d", "/etc/yum.repos.d", "/etc/systemd/system"),
    "/etc/salt",  # of who applies this
    # where a state has asked first whether there is a firewalld
    "/etc/firewalld/policies",
}
# Folders by the package that brings them.
BROUGHT = {
    "metalk8s-salt-minion": {"/etc/salt/minion.d"},
}
FUNCTIONS = {
    "file.managed": {"user", "group", "mode"},
    "file.directory": {"user", "group", "mode"},
    "file.recurse": {"user", "group", "dir_mode", "file_mode"},
    "file.symlink": {"user", "group"},
    "x509.private_key_managed": {"user", "group", "mode"},
    "x509.certificate_managed": {"user", "group", "mode"},
    # these say themselves what they write: tests/unit/salt
    "metalk8s_credentials.certificate": set(),
    "metalk8s_credentials.encryption_configuration": set(),
    "metalk8s_credentials.kubeconfig": set(),
    "metalk8s_credentials.public_key": set(),
    "metalk8s_credentials.vrrp_password": set(),
    "metalk8s_static_pod.managed": set(),
    "metalk8s_salt_keys.exchanged": set(),
}

each_role = pytest.mark.parametrize("role", ROLES)
each_machine = pytest.mark.parametrize("machine", MACHINES)


def writing(states: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], pathlib.PurePath]]:
    """Give each state that writes with each path that it writes to, in their order."""
    for state in states:
        arguments = state["arguments"]
        if state["function"] == "metalk8s_salt_keys.exchanged":
            for folder in (arguments["master_keys"], arguments["minion_keys"]):
                yield state, pathlib.PurePath(folder, "key")
            yield state, pathlib.PurePath(arguments["master_keys"], "minions", "node")
        elif state["function"] in FUNCTIONS:
            yield state, pathlib.PurePath(arguments["name"])


@each_role
@each_machine
def test_the_folder_of_each_file_is_there(
    rendered: dict[str, Any], machine: str, role: str
) -> None:
    """A package brought it, or a state before."""
    there = set(GIVEN)
    missing = {}
    for state in rendered[machine]["sls"][f"metalk8s.roles.{role}"]["states"]:
        if state["function"] == "pkg.installed":
            for package in state["arguments"]["pkgs"]:
                name = package if isinstance(package, str) else next(iter(package))
                there |= BROUGHT.get(name, set())
        for _, path in writing([state]):
            if str(path.parent) not in there:
                missing[state["id"]] = str(path.parent)
        if state["function"] == "file.directory":
            there.add(state["arguments"]["name"])
    assert missing == {}


@each_role
@each_machine
def test_who_may_read_is_said(rendered: dict[str, Any], machine: str, role: str) -> None:
    """For each file and folder: owner, group and mode; no folder is made in passing."""
    states = rendered[machine]["sls"][f"metalk8s.roles.{role}"]["states"]
    silent = {
        state["id"]: sorted(FUNCTIONS[state["function"]] - state["arguments"].keys())
        for state, _ in writing(states)
    }
    assert {name: missing for name, missing in silent.items() if missing} == {}
    assert [state["id"] for state in states if state["arguments"].get("makedirs")] == []


@each_machine
def test_every_function_that_writes_is_known(rendered: dict[str, Any], machine: str) -> None:
    """One that is new has to be looked at here."""
    used = {
        state["function"]
        for role in ROLES
        for state in rendered[machine]["sls"][f"metalk8s.roles.{role}"]["states"]
    }
    kinds = ("file.", "x509.", "metalk8s_credentials.", "metalk8s_salt_keys.")
    others = {"file.absent", "file.tidied"}
    assert {name for name in used if name.startswith(kinds)} - others <= FUNCTIONS.keys()
