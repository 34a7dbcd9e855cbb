"""The plug-in for sos: what it asks for, and that no secret survives it.

sos itself is on no machine that builds; its base class is a double here. The integration ring
runs the real one (tests/integration/test_sosreport.py).
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

PLUGIN = pathlib.Path(__file__).parents[2] / "packages/metalk8s-sosreport/files/metalk8s.py"
KEY = "MIIEvQIBADANBgkqhkiG9w0BAQ\nZ2V0IG1lIG91dA=="
PEM = f"-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2RlIn0.c2lnbmF0dXJl"


class Base:
    """What the plug-in uses of sos: notes what it is asked to collect."""

    def __init__(
        self, root: pathlib.Path, options: dict[str, bool], answers: dict[str, str]
    ) -> None:
        self.root = root
        self.options = options
        self.answers = answers
        self.copied: list[str] = []
        self.commands: list[str] = []
        self.units: list[str] = []
        self.strings: dict[str, str] = {}

    def get_option(self, name: str) -> bool:
        return self.options.get(name, False)

    def join_sysroot(self, path: str) -> str:
        return str(self.root / path.lstrip("/"))

    def strip_sysroot(self, path: str) -> str:
        return path.removeprefix(str(self.root))

    def add_copy_spec(self, pattern: str, *, tailit: bool) -> None:
        assert not tailit, "what sos cuts off is beyond the masks"
        self.copied.append(pattern)

    def add_journal(self, units: str) -> None:
        self.units.append(units)

    def add_cmd_output(self, commands: str | list[str], **_: object) -> None:
        self.commands += [commands] if isinstance(commands, str) else commands

    def exec_cmd(self, command: str, **_: object) -> dict[str, object]:
        found = [self.answers[words] for words in self.answers if words in command]
        return {"status": 0 if found else 1, "output": found[0] if found else "refused"}

    def add_string_as_file(self, content: str, filename: str) -> None:
        self.strings[filename] = content

    def _log_warn(self, text: str) -> None:
        self.strings["warning"] = text


@pytest.fixture(params=["tuples", "PluginOpt"], scope="module")
def plugin(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Load the plug-in as sos 4.0 does, and as 4.3 and newer do."""
    sos = types.ModuleType("sos.report.plugins")
    vars(sos).update(Plugin=Base, DebianPlugin=type("D", (), {}), RedHatPlugin=type("R", (), {}))
    if request.param == "PluginOpt":
        vars(sos)["PluginOpt"] = lambda name, default, desc: (name, desc, "slow", default)
    names = ("sos", "sos.report", "sos.report.plugins")
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setitem(sys.modules, name, sos)
        spec = importlib.util.spec_from_file_location("metalk8s_sos_plugin", PLUGIN)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


SECRETS = {
    "PEM": (f"a\n{PEM}\nb", KEY),
    "PEM, of a kind": (PEM.replace("PRIVATE", "EC PRIVATE"), KEY),
    "PEM, its end cut off": (PEM[:60], KEY[:30]),
    "PEM, its beginning cut off": (f"{KEY}\n-----END RSA PRIVATE KEY-----\nb", KEY),
    "PEM in one line of JSON": (json.dumps({"a": PEM}), "MIIEvQ"),
    "PEM in base64": ("client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURQ==", "UFJJVkFURQ"),
    "JSON web token": (f"E1120 auth.go:63] refused {JWT}", "c2lnbmF0dXJl"),
    "bootstrap token": ("--discovery abcdef.0123456789abcdef", "0123456789abcdef"),
    "bearer": ("Authorization: Bearer c2VjcmV0", "c2VjcmV0"),
    "header in a log": ('curl -H "X: Basic c2VjcmV0" /', "c2VjcmV0"),
    "URL": ("proxy: http://joe:hunter2@proxy:3128", "hunter2"),
    "YAML": ("password: correct horse battery", "horse"),
    "YAML, quoted": ("password: 'correct horse'", "horse"),
    "YAML, an item": ("- token: hunter2", "hunter2"),
    "YAML, a block": ("a:\n  password: |\n    hunter2\n\n    more\n  b: c\n", "more"),
    "YAML, folded, at the end": ("secret: >-\n  hunter2", "hunter2"),
    "TOML": ('[x.auth]\n  auth = "aHVudGVyMg=="', "aHVudGVyMg"),
    "TOML, dotted": ('registry.password = "hunter2"', "hunter2"),
    "JSON": ('{"user": "joe", "password": "hun\\"ter2", "a": 1}', "ter2"),
    "JSON within JSON": (json.dumps({"a": json.dumps({"password": "hunter2"})}), "hunter2"),
    "argument": ("  - --etcd-password=hunter2", "hunter2"),
    "arguments in a line": ("started a --token=hunter2 --v=2", "hunter2"),
    "environment": ("DB_PASSWORD=hunter2", "hunter2"),
    "environment in YAML": ("- name: API_KEY\n  value: hunter2\n- name: B\n", "hunter2"),
    "environment, a block": ("- name: A_TOKEN\n  value: |\n    hunter2\n- name: B\n", "hunter2"),
    "truly no setting": ("password: true horse", "horse"),
}


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_mask_removes(plugin: Any, text: str, secret: str) -> None:
    assert secret in text
    assert secret not in plugin.mask(text)
    assert plugin.MASK in plugin.mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        "authentication:\n  anonymous:\n    enabled: false\nauthorization:\n  mode: Webhook\n",
        "automountServiceAccountToken: true\n",
        "volumes:\n- secret:\n    secretName: certificates\n",
        '{"secret": {"secretName": "certificates"}, "token": null}',
        "--tls-private-key-file=/etc/kubernetes/pki/apiserver.key --v=2",
        'MountVolume.SetUp failed for volume "x" : secret "y" not found',
        "image: registry/metalk8s-2.4.0/etcd@sha256:0123456789abcdef",
        "Environment=KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml",
    ],
)
def test_mask_leaves(plugin: Any, text: str) -> None:
    assert plugin.mask(text) == text


def test_mask_keeps_what_follows(plugin: Any) -> None:
    text = "password: |\n  hunter2\nport: 1\n- name: X_KEY\n  value: a\n- name: Y\n  value: b\n"
    kept = plugin.mask(text)
    assert "port: 1\n" in kept
    assert kept.endswith("- name: Y\n  value: b\n")


@given(st.text("pas word:=\"'\\|\n-x", max_size=60))
def test_nothing_before_a_name_is_lost(plugin: Any, text: str) -> None:
    assert plugin.mask(f"plain\n{text}").startswith("plain\n")


POD = {
    "kind": "Pod",
    "metadata": {
        "name": "db",
        "managedFields": [{"x": "hunter2"}],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "hunter2",
            "note": PEM,
        },
    },
    "spec": {
        "serviceAccountToken": "hunter2",
        "containers": [
            {
                "env": [{"name": "HARMLESS", "value": "hunter2"}, {"name": "B", "valueFrom": {}}],
                "args": ["--password", "hunter2", "--token=hunter2", "--v=2"],
                "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "A", "value": "hunter2"}]}},
                "ports": [{"containerPort": 5432}],
            }
        ],
    },
}


def test_objects_are_masked(plugin: Any) -> None:
    done = plugin.masked(
        {
            "items": [
                POD,
                {"kind": "Secret", "data": {"a": "hunter2"}, "stringData": {"b": "hunter2"}},
            ]
        }
    )
    text = json.dumps(done)
    assert "hunter2" not in text
    assert "MIIE" not in text
    container = done["items"][0]["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 5432}]
    assert container["env"][1] == {"name": "B", "valueFrom": {}}
    assert container["args"][3] == "--v=2"
    assert done["items"][1] == {"kind": "Secret"}


def _write(root: pathlib.Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("", encoding="utf-8")


LOGS = (
    "var/log/pods/kube-system_etcd-a_1/etcd/0.log",
    "var/log/pods/shop_db-0_2/db/0.log",
)


def test_collection_without_a_cluster(plugin: Any, tmp_path: pathlib.Path) -> None:
    _write(tmp_path, *LOGS, "etc/kubernetes/pki/ca.crt", "etc/kubernetes/pki/ca.key")
    _write(tmp_path, "etc/kubernetes/manifests/etcd.yaml", "etc/salt/pki/minion/minion.pem")
    (tmp_path / "etc/kubernetes/manifests/link.yaml").symlink_to(
        tmp_path / "etc/kubernetes/pki/ca.key"
    )
    asked = plugin.MetalK8s(tmp_path, {}, {})
    asked.setup()
    assert asked.units == ["containerd", "kubelet", "salt-minion"]
    assert "tail --bytes=2000000 /var/log/pods/kube-system_etcd-a_1/etcd/0.log" in asked.commands
    assert not any("shop" in command for command in asked.commands)
    assert not any("kubectl" in command or "etcdctl" in command for command in asked.commands)
    assert not any(".key" in command for command in asked.commands)
    assert any(command.endswith("-in /etc/kubernetes/pki/ca.crt") for command in asked.commands)
    assert asked.copied == ["/etc/kubernetes/manifests/etcd.yaml"]


@pytest.mark.parametrize("options", [{}, {"all": True, "podlogs": True, "all_logs": True}])
def test_who_did_what_stays_on_the_machine(
    plugin: Any, tmp_path: pathlib.Path, options: dict[str, bool]
) -> None:
    """The audit log has the arguments of commands in pods: no mask knows which are secret."""
    _write(tmp_path, *LOGS, "var/log/kube-audit/audit.log")
    asked = plugin.MetalK8s(tmp_path, options, {})
    asked.setup()
    assert any("/var/log/pods/" in command for command in asked.commands)
    assert not [what for what in (*asked.commands, *asked.copied) if "audit" in what]


def test_options(plugin: Any, tmp_path: pathlib.Path) -> None:
    _write(
        tmp_path,
        *LOGS,
        "etc/kubernetes/admin.conf",
        "etc/kubernetes/pki/etcd/healthcheck-client.key",
    )
    answers = {
        "version": "v1",
        "get pods": f"Warning: old\n{json.dumps({'items': [POD]})}\n",
        "get nodes": "gone {",
    }
    options = {"all": True, "podlogs": True, "all_logs": True}
    asked = plugin.MetalK8s(tmp_path, options, answers)
    asked.setup()
    assert "cat /var/log/pods/shop_db-0_2/db/0.log" in asked.commands
    assert any("endpoint status" in command for command in asked.commands)
    assert sum(" get secrets " in command for command in asked.commands) == 1
    assert set(asked.strings) == {"pods.json", "warning"}
    assert "hunter2" not in asked.strings["pods.json"]
    contents = [c for c in asked.commands if "secrets" in c or "configmaps" in c]
    assert all("--output=wide" in command for command in contents)


def test_server_that_does_not_answer_is_asked_once(plugin: Any, tmp_path: pathlib.Path) -> None:
    _write(tmp_path, "etc/kubernetes/admin.conf")
    asked = plugin.MetalK8s(tmp_path, {"all": True}, {})
    asked.setup()
    assert [c for c in asked.commands if c.startswith("kubectl")] == [
        f"{plugin.KUBECTL} get --raw /readyz?verbose"
    ]
