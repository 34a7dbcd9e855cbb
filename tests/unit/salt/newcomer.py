"""A machine that is to join, and the bootstrap machine that lets it in; both below a folder.

``ssh`` on PATH is the way from one to the other: what it gets as standard input is run here, its
absolute paths below the machine's folder. What it says of itself is the test's.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import types
from typing import Any

from .loader import STATES, load

MODULES = ("candidate", "delivery", "enrolment", "expected", "fitness", "inspection", "machines",
           "medium", "ssh", "survey", "workload")  # fmt: skip
HOST_KEY = "ssh-ed25519 AAAAC3Nza"
PREFIX = "metalk8s.scality.com/"
IDENTITY = "2" * 32
CERTIFICATE = "-----BEGIN CERTIFICATE-----\n"
# What ssh does: it notes its arguments, learns the host key as the real one does, and runs a shell.
SSH = """\
#!{python}
import json, os, pathlib, subprocess, sys, time
root, folder = pathlib.Path({root!r}), pathlib.Path({folder!r})
words, script = sys.argv[1:], sys.stdin.read()
options = dict(word[2:].split("=", 1) for word in words if word.startswith("-o"))
with (folder / "calls").open("a") as stream:
    stream.write(json.dumps([words, script]) + "\\n")
known = pathlib.Path(options["UserKnownHostsFile"])
line = options["HostKeyAlias"] + " " + (folder / "host-key").read_text()
lines = known.read_text().splitlines() if known.exists() else []
mine = [one for one in lines if one.split()[0] == options["HostKeyAlias"]]
if line not in mine and (mine or options["StrictHostKeyChecking"] == "yes"):
    print("REMOTE HOST IDENTIFICATION HAS CHANGED!", file=sys.stderr)
    sys.exit(255)
if not mine:
    known.write_text("".join(one + "\\n" for one in [*lines, line]))
refusal = folder / "refusal"
if refusal.exists():
    status, _, said = refusal.read_text().partition(" ")
    print(said, file=sys.stderr)
    sys.exit(int(status))
if "end=survey" in script:
    now = time.time() + float((folder / "ahead").read_text())
    print((folder / "survey").read_text() + f"\\ntime={{now}}")
    sys.exit(0)
# What is called the same on both machines is below two folders here.
script = script.replace({here!r}, "").replace("/etc/", str(root) + "/etc/")
script = script.replace(":0:0", f":{{os.geteuid()}}:{{os.getegid()}}")
script = script.replace("chown 0:0", ": chown")
sys.exit(subprocess.run(["sh", "-s"], input=script, text=True).returncode)
"""
# Programs of the machine: they note what they were asked.
PROGRAM = """\
#!/bin/sh
printf '%s\\n' "${0##*/} $*" >>"$FOLDER/programs"
case "${0##*/} $*" in
"dpkg-query "*) [ ! -e "$FOLDER/installed" ] || cat "$FOLDER/installed" ;;
"apt-get "*" install "*) printf '3008.2-1 installed' >"$FOLDER/installed" ;;
"rpm "*) [ ! -e "$FOLDER/installed" ] || printf 3008.2-1 ;;
"apt-mark hold "*) printf '%s\\n' "$2" >"$FOLDER/held" ;;
"apt-mark showhold "*) [ ! -e "$FOLDER/held" ] || cat "$FOLDER/held" ;;
"dnf "*) printf x >"$FOLDER/installed" ;;
"systemctl is-enabled"*) [ -e "$FOLDER/enabled" ] ;;
"systemctl enable"*) touch "$FOLDER/enabled" ;;
"systemctl is-active"*) [ -e "$FOLDER/active" ] ;;
"systemctl restart"*) [ ! -e "$FOLDER/broken" ] && touch "$FOLDER/active" ;;
"journalctl "*) echo "the master cannot be reached" ;;
esac
"""
FAKED = ("apt-get", "apt-mark", "dnf", "dpkg", "dpkg-query", "journalctl", "rpm", "systemctl")
SURVEY = f"""\
user=0
os=debian
os_version=12
os_name=Debian 12
architecture=x86_64
systemd=yes
machine_id={IDENTITY}
cpus=4
memory=8000000
address=10.0.0.2
cgroups=v2 cpu cpuset memory pids
resolver=yes
end=survey
"""
VERSIONS = {
    "metalk8s": {"version": "2.4.0"},
    "packages": {
        "debian": {"metalk8s-salt-minion": {"version": "3008.2-1"}},
        "redhat": {"metalk8s-salt-minion": {"version": "3008.2", "release": "1"}},
    },
    "signing_keys": {"redhat": {"9": ["keys/redhat/9/baseos.asc"]}},
}


class Newcomer:
    """Both machines; ``functions`` is what Salt gives the modules of the bootstrap machine."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.root, self.here = folder, folder / "there", folder / "here"
        self.programs = folder / "bin"
        self.pki, self.salt = self.here / "etc/metalk8s/pki", self.here / "etc/salt/pki/minion"
        for place in (self.programs, self.pki / "salt-master/minions", self.salt):
            place.mkdir(parents=True)
        for name in ("etc/apt/sources.list.d", "etc/apt/apt.conf.d", "etc/yum.repos.d"):
            (self.root / name).mkdir(parents=True)
        self.refused = ""
        self.workload_plane = ["10.0.0.0/24"]
        self.issued: list[str] = []
        self.nodes: dict[str, dict[str, Any]] = {}
        self._programs()
        self._authorities()
        self._medium()
        self.say()
        self.key = self.here / "id"
        self.key.write_text("key")
        self.key.chmod(0o600)
        self.declare()
        self.modules = self._modules()

    def _programs(self) -> None:
        text = SSH.format(
            python=sys.executable,
            root=str(self.root),
            folder=str(self.folder),
            here=str(self.here),
        )
        for name, script in (("ssh", text), *((name, PROGRAM) for name in FAKED)):
            (self.programs / name).write_text(script)
            (self.programs / name).chmod(0o755)
        (self.programs / "python3.11").symlink_to(sys.executable)
        (self.folder / "host-key").write_text(HOST_KEY)

    def _authorities(self) -> None:
        for name in ("ca", "repositories-ca", "salt-ca"):
            text = f"-----BEGIN CERTIFICATE-----\n{name[:2]}==\n-----END CERTIFICATE-----\n"
            (self.pki / f"{name}.crt").write_text(text)
        (self.salt / "minion_master.pub").write_text("MASTER\n")

    def _medium(self) -> None:
        self.medium = self.here / "srv/metalk8s-2.4.0"
        parameters = self.medium / "salt/metalk8s/parameters/os_family"
        parameters.mkdir(parents=True)
        for family in ("debian", "redhat"):
            text = (STATES / f"metalk8s/parameters/os_family/{family}.yaml").read_text()
            (parameters / f"{family}.yaml").write_text(text)
        (self.medium / "salt/metalk8s/versions.json").write_text(json.dumps(VERSIONS))
        for name in (
            "keys/metalk8s.asc",
            "keys/redhat/9/baseos.asc",
            "packages/debian/metalk8s/dists/bookworm/InRelease",
            "packages/redhat/metalk8s-el9/repodata/repomd.xml",
        ):
            (self.medium / name).parent.mkdir(parents=True, exist_ok=True)
            (self.medium / name).write_text(f"{name}\n")

    def say(self, *lines: str, ahead: float = 0.0) -> None:
        """Let the machine say more of itself; ``ahead``: seconds of its clock."""
        (self.folder / "survey").write_text(SURVEY + "\n".join(lines))
        (self.folder / "ahead").write_text(str(ahead))

    def declare(self, name: str = "worker", **annotations: str) -> None:
        """Let the operator apply a manifest."""
        words = {"ssh-host": "10.0.0.2", "ssh-key-path": str(self.key)}
        words |= {key.replace("_", "-"): value for key, value in annotations.items()}
        marked = {f"{PREFIX}{key}": value for key, value in words.items()}
        labels = {f"{PREFIX}version": "2.4.0"}
        metadata = {"name": name, "annotations": marked, "labels": labels}
        self.nodes[name] = {"metadata": metadata}

    def patch(self, method: str, path: str, body: dict[str, Any]) -> None:
        """Merge into a Node's annotations, or into its status."""
        name, _, part = path.removeprefix("/api/v1/nodes/").partition("/")
        assert method == "PATCH"
        if part == "status":
            self.nodes[name].setdefault("status", {}).update(body["status"])
        else:
            self.nodes[name]["metadata"]["annotations"] |= body["metadata"]["annotations"]

    def known(self, environment: str) -> dict[str, Any]:
        """Give what the states know, of which a part is enough."""
        assert environment == "metalk8s-2.4.0"
        files = (("kubernetes", "ca"), ("repositories", "repositories-ca"), ("salt", "salt-ca"))
        authority = {name: {"path": str(self.pki / file)} for name, file in files}
        group = {"name": "metalk8s-sa-key", "id": 6440}
        return {
            "version": "2.4.0",
            "generated": "Generated by MetalK8s 2.4.0. Changes made here are overwritten.",
            "archive": {"root": str(self.medium)},
            "node": {"name": "bootstrap", "roles": ["bootstrap"]},
            "networks": {
                "control_plane": {"address": "10.0.0.1", "networks": ["10.0.0.0/24"]},
                "workload_plane": {"address": "10.0.0.1", "networks": self.workload_plane},
            },
            "kube_apiserver": {"host": "10.0.0.7"},
            "kubelet": {"fail_swap_on": True},
            "kernel": {"modules": {"overlay": "/x"}, "modules_on_demand": ["veth"]},
            "accounts": [{"name": "metalk8s-etcd", "id": 2379}],
            "ports": {
                "kubelet": {"number": 10250, "what": "kubelet"},
                "etcd_clients": {"number": 2379, "what": "etcd"},
                "keepalived": {"protocol": "vrrp", "what": "keepalived"},
            },
            "repo": {"name": "metalk8s", "description": "MetalK8s packages", "keys": []},
            "repositories": {"url": "https://10.0.0.1:5443"},
            "salt_master": {
                "key_folder": str(self.pki / "salt-master"),
                "account": {"name": "metalk8s-salt", "id": os.getuid()},
            },
            "salt_minion": {
                "service": "salt-minion",
                "key_folder": str(self.salt),
                "certificate": str(self.pki / "salt-minion"),
                "config": "/etc/salt/minion.d/metalk8s.conf",
            },
            "pki": {
                "authorities": authority,
                "key_bits": 2048,
                "certificate": {"days_remaining": 45},
                "service_accounts": {"group": group},
            },
        }

    def issue(self, name: str, policy: str, public_key: str) -> dict[str, str]:
        assert policy == "salt_minion"
        assert public_key.startswith("-----BEGIN PUBLIC KEY-----")
        if self.refused:
            return {"refused": self.refused}
        self.issued.append(public_key)
        return {"certificate": f"{CERTIFICATE}{name}\n{public_key}"}

    def _modules(self) -> dict[str, types.ModuleType]:
        functions: dict[str, Any] = {
            "metalk8s_kubernetes.get": lambda version, kind, name: self.nodes.get(name),
            "metalk8s_kubernetes.call": self.patch,
            "metalk8s_kubernetes.list_objects": lambda version, kind: list(self.nodes.values()),
            "metalk8s_map.known": self.known,
            "metalk8s_certificates.issue_for": self.issue,
            "cp.get_file_str": lambda path, saltenv: (
                STATES / path.removeprefix("salt://")
            ).read_text(encoding="utf-8"),
            "slsutil.renderer": lambda path, default_renderer, saltenv, metalk8s: (
                f"id: {metalk8s['node']['name']}\nhere: {metalk8s['has_authorities']}\n"
            ),
            "x509.read_certificate": lambda text: {
                "public_key": text.removeprefix(CERTIFICATE).partition("\n")[2],
                "subject": {"CN": text.removeprefix(CERTIFICATE).partition("\n")[0]},
            },
            "x509.get_public_key": lambda text: text,
            "x509.verify_signature": lambda text, signing_pub_key: True,
            "x509.expires": lambda text, days: False,
        }
        modules = {}
        for name in MODULES:
            module = load(f"_modules/metalk8s_{name}", salt=functions)
            modules[name] = module
            self._place(module)
            functions |= {
                f"metalk8s_{name}.{key}": value
                for key, value in vars(module).items()
                if isinstance(value, types.FunctionType) and not key.startswith("_")
            }
        return modules

    def _place(self, module: types.ModuleType) -> None:
        """Let a module find this test's machines."""
        places = {
            "PINS": str(self.pki / "machines.json"),
            "KNOWN_HOSTS": str(self.pki / "known_hosts"),
            "MOUNTS": self.here / "srv",
            "MACHINE_ID": self.here / "machine-id",
            "PRIVATE": str(self.here),
            "ENVIRONMENT": {
                "PATH": f"{self.programs}:{os.environ['PATH']}",
                "FOLDER": str(self.folder),
                "LC_ALL": "C.UTF-8",
            },
        }
        for name in set(places) & set(vars(module)):
            setattr(module, name, places[name])
        # Defaults of arguments are as old as the module.
        if hasattr(module, "CLIENT"):
            module.run.__defaults__ = (*module.run.__defaults__[:-1], places["KNOWN_HOSTS"])

    def there(self) -> dict[str, tuple[str, int]]:
        """Return the files of the machine: path → text and mode."""
        return {
            str(file.relative_to(self.root)): (file.read_text(), file.stat().st_mode & 0o777)
            for file in sorted(self.root.rglob("*"))
            if file.is_file()
        }

    def asked(self) -> list[str]:
        """Return what programs of the machine were asked, and forget it."""
        file = self.folder / "programs"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def pinned(self) -> dict[str, Any]:
        """Return what the bootstrap machine has pinned."""
        file = self.pki / "machines.json"
        return dict(json.loads(file.read_text())) if file.exists() else {}
