"""What an operator says of a machine that is to join, and what is wrong with it by itself.

Pure: from the Node that the operator wrote, other Nodes and what is pinned, to sentences. Nobody is
asked anything.
"""

from __future__ import annotations

import ipaddress
import os
import pathlib
import re
import stat
from typing import Any

PREFIX = "metalk8s.scality.com/"
VERSION = f"{PREFIX}version"
ROLE = "node-role.kubernetes.io/"
ROLES = ("bootstrap", "etcd", "infra", "master", "node")
IGNORED = ("control-plane",)  # kubeadm's, which follows master
MEMBERS = {"bootstrap", "etcd"}  # roles that run a member of etcd
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
NAME_LENGTH = 63  # of a label of the Node, as which the name stands there
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
HOST_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,2}")
PORT = re.compile(r"[1-9][0-9]{0,4}")
HIGHEST_PORT = 65535


def roles(node: dict[str, Any]) -> list[str]:
    """Return the roles that a Node is labelled with, sorted; without any it is a ``node``."""
    labels = node["metadata"].get("labels") or {}
    found = {label.removeprefix(ROLE) for label in labels if label.startswith(ROLE)}
    return sorted(found.difference(IGNORED)) or ["node"]


def version(node: dict[str, Any]) -> str:
    """Return the version of MetalK8s that a Node is to have; empty when none is said."""
    return str((node["metadata"].get("labels") or {}).get(VERSION, ""))


def addresses(node: dict[str, Any]) -> set[str]:
    """Return the addresses that a Node has or is said to have."""
    reported = (node.get("status") or {}).get("addresses") or []
    own = {str(one.get("address")) for one in reported if one.get("type") == "InternalIP"}
    said = _annotations(node).get(f"{PREFIX}ssh-host", "")
    return own | ({said} if said else set())


def target(node: dict[str, Any]) -> dict[str, Any]:
    """Return what ``metalk8s_ssh.run`` needs, out of a Node that ``problems`` finds fine."""
    said = _annotations(node)
    return {
        "name": node["metadata"]["name"],
        "address": said[f"{PREFIX}ssh-host"],
        "port": int(said.get(f"{PREFIX}ssh-port", "22")),
        "user": said.get(f"{PREFIX}ssh-user", "root"),
        "key": said[f"{PREFIX}ssh-key-path"],
        "sudo": said.get(f"{PREFIX}ssh-sudo", "false") == "true",
        "host_key": said.get(f"{PREFIX}ssh-host-key", ""),
    }


def problems(node: dict[str, Any], known: dict[str, Any]) -> list[str]:
    """Say what is wrong with what is said of a machine.

    :param known: ``here`` (name of this machine), ``versions`` that are served, ``networks`` of the
        control plane, ``owners`` (address → whose it is in words, this machine's own ones left
        out), ``pins``.
    """
    sentences = [*_version(node, known), *_roles(node)]
    return [*unreachable(node, known), *_of(node, sentences)]


def unreachable(node: dict[str, Any], known: dict[str, Any]) -> list[str]:
    """Say which of these problems keep us from asking the machine itself."""
    sentences = [*_name(node["metadata"]["name"], known), *_address(node, known)]
    return _of(node, [*sentences, *_access(node), *_key(node)])


def _of(node: dict[str, Any], sentences: list[str]) -> list[str]:
    return [f"Node {node['metadata']['name']}: {sentence}" for sentence in sentences]


def warnings(node: dict[str, Any], nodes: list[dict[str, Any]]) -> list[str]:
    """Say what may be meant so, but is rarely wished for.

    :param nodes: every Node of the cluster.
    """
    others = [one for one in nodes if one["metadata"]["name"] != node["metadata"]["name"]]
    members = sum(bool(MEMBERS & set(roles(one))) for one in (*others, node))
    if not MEMBERS & set(roles(node)) or members % 2:
        return []
    # No problem: from one to three members, every way goes over two.
    return [
        f"Node {node['metadata']['name']}: with it, etcd has {members} members. An even number "
        f"bears no more losses than {members - 1}, and is lost more easily. Let one more machine "
        f"with the role etcd join, too."
    ]


def _annotations(node: dict[str, Any]) -> dict[str, str]:
    found = node["metadata"].get("annotations") or {}
    return {str(key): str(value) for key, value in found.items()}


def _name(name: str, known: dict[str, Any]) -> list[str]:
    if name == known["here"]:
        return ["is the bootstrap machine, which is there already. Name another Node."]
    if not NAME.fullmatch(name) or len(name) > NAME_LENGTH:
        return [
            "no machine can have that name: expected are up to 63 of a-z, 0-9, - and ., the first "
            "and the last a letter or a digit. Delete it and apply one with another name."
        ]
    return []


def _version(node: dict[str, Any], known: dict[str, Any]) -> list[str]:
    wanted = version(node)
    served = ", ".join(known["versions"]) or "none"
    if not wanted:
        return [f"has no label {VERSION}. Set it to one of: {served}."]
    if wanted not in known["versions"]:
        return [
            f"label {VERSION} is {wanted!r}, which this machine does not serve; it serves: "
            f"{served}. Correct the label, or add the archive of that version."
        ]
    return []


def _roles(node: dict[str, Any]) -> list[str]:
    found = roles(node)
    sentences = [
        f"label {ROLE}{role} is no role; there are {', '.join(ROLES)}. Remove the label."
        for role in found
        if role not in ROLES
    ]
    if "bootstrap" in found:
        sentences.append(
            f"label {ROLE}bootstrap: a cluster has one bootstrap machine. Remove the label; "
            "master and etcd are what a further machine of the control plane has."
        )
    return sentences


def _address(node: dict[str, Any], known: dict[str, Any]) -> list[str]:
    name, key = node["metadata"]["name"], f"{PREFIX}ssh-host"
    said = _annotations(node).get(key, "")
    networks = ", ".join(known["networks"])
    expected = f"Set it to the IPv4 address of the machine in {networks}."
    if not said:
        return [f"has no annotation {key}. {expected}"]
    try:
        address = ipaddress.IPv4Address(said)
    except ValueError:
        return [f"annotation {key} is {said!r}, which is no IPv4 address. {expected}"]
    if not any(address in ipaddress.ip_network(cidr) for cidr in known["networks"]):
        return [f"annotation {key} is {said}, which is not in the control plane. {expected}"]
    sentences = []
    if said in known["owners"]:
        sentences.append(f"annotation {key} is {said}, the address of {known['owners'][said]}. ")
        sentences[-1] += expected
    pinned = known["pins"].get(name, {}).get("address", said)
    if pinned != said:
        sentences.append(
            f"annotation {key} is {said}, but it joined as {pinned}. Set it back, or remove the "
            f"machine and let it join anew (remove-node.sh {name})."
        )
    return sentences


def _access(node: dict[str, Any]) -> list[str]:
    said = _annotations(node)
    expected = (
        ("ssh-port", "22", _is_port, "a TCP port"),
        ("ssh-user", "root", USER.fullmatch, "the name of a user there"),
        ("ssh-sudo", "false", ("true", "false").__contains__, "'true' or 'false', in quotes"),
        (
            "ssh-host-key",
            "ssh-rsa A",
            HOST_KEY.fullmatch,
            "its kind and the key",
        ),
    )
    return [
        f"annotation {PREFIX}{key} is {said[PREFIX + key]!r}; expected is {words}."
        for key, default, fits, words in expected
        if not fits(said.get(PREFIX + key, default))
    ]


def _is_port(text: str) -> bool:
    return bool(PORT.fullmatch(text)) and int(text) <= HIGHEST_PORT


def _key(node: dict[str, Any]) -> list[str]:
    key = f"{PREFIX}ssh-key-path"
    said = _annotations(node).get(key, "")
    make = f"Make one (ssh-keygen -t ed25519 -N '' -f {said or '/etc/metalk8s/pki/salt-bootstrap'})"
    if not said.startswith("/"):
        shown = f"is {said!r}, which is no whole path" if said else "is missing"
        return [f"annotation {key} {shown}. {make} and name it."]
    file = pathlib.Path(said)
    if not file.is_file():
        return [f"annotation {key}: {said} is no file on this machine. {make}, or correct it."]
    status = file.stat()
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        return [
            f"annotation {key}: {said} is readable by others than root "
            f"(mode {stat.S_IMODE(status.st_mode):04o}, owner {status.st_uid}). "
            f"Run `chown root {said} && chmod 600 {said}`."
        ]
    return []
