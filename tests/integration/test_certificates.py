"""Certificates through the Salt master, on the machine that bootstrap.sh made: who gets which.

Runs ``docker``. The fixture ``cluster`` comes from ``conftest.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.testbed.machine import Machine

pytestmark = pytest.mark.integration

ASK = "metalk8s_certificates.issue_to_minion"
PKI = "/etc/metalk8s/pki"
ACCEPTED = f"{PKI}/salt-master/minions"
STRANGER = "/root/stranger"
# A second minion of the same master, with a key of its own that an operator has accepted.
SETTLE = f"""
set -eu
mkdir -p {STRANGER}/pki
sed -e 's/^id: .*/id: stranger/' /etc/salt/minion.d/metalk8s.conf >{STRANGER}/minion
cat >>{STRANGER}/minion <<END
pki_dir: {STRANGER}/pki
cachedir: {STRANGER}/cache
sock_dir: {STRANGER}/run
log_file: {STRANGER}/log
END
cp /etc/salt/pki/minion/minion_master.pub {STRANGER}/pki/
openssl genrsa -out {STRANGER}/pki/minion.pem 2048 2>/dev/null
openssl rsa -in {STRANGER}/pki/minion.pem -pubout -out {STRANGER}/pki/minion.pub 2>/dev/null
cp {STRANGER}/pki/minion.pub {ACCEPTED}/stranger
"""

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def key(cluster: Machine) -> str:
    """Make a key, and return its public half."""
    cluster.shell("openssl genrsa -out /root/asked.key 2048 2>/dev/null")
    return cluster.shell("openssl rsa -in /root/asked.key -pubout 2>/dev/null")


@pytest.fixture(scope="module")
def stranger(cluster: Machine) -> Iterator[None]:
    """Let the master know a second minion, of which the cluster has no Node."""
    cluster.shell(SETTLE)
    yield
    cluster.shell(f"rm -r {STRANGER} {ACCEPTED}/stranger")


def ask(cluster: Machine, *arguments: object, function: str = ASK, configuration: str = "") -> Any:
    """Let a minion call a function of the machine with the authorities, through the master.

    :return: what that machine answers, or what the master says to the minion instead.
    """
    options = [f"--config-dir={configuration}"] if configuration else []
    done = cluster.call(
        *("salt-call", *options, "--log-level=critical", "--out=json", "publish.full_data"),
        *("bootstrap", function, json.dumps(arguments), "timeout=30"),
    )
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    answer = json.loads(done.stdout)["local"]
    return answer["bootstrap"]["ret"] if answer else answer


def test_certificate_of_the_own_role(cluster: Machine, key: str) -> None:
    """It is the table's, for the key that was sent, and verifies."""
    certificate = ask(cluster, "kubelet", key)["certificate"]
    cluster.write("/root/asked.crt", certificate)
    verified = cluster.shell(
        f"openssl verify -CAfile /etc/kubernetes/pki/ca.crt -verify_ip {cluster.address} "
        "-purpose sslserver /root/asked.crt"
    )
    assert verified == "/root/asked.crt: OK\n"
    assert cluster.shell("openssl x509 -noout -pubkey -in /root/asked.crt") == key
    show = "openssl x509 -noout -subject -enddate -ext subjectAltName,extendedKeyUsage -in"
    asked = cluster.shell(f"{show} /root/asked.crt").splitlines()
    own = cluster.shell(f"{show} /etc/kubernetes/pki/kubelet.crt").splitlines()
    assert [line for line in asked if not line.startswith("notAfter")] == [
        line for line in own if not line.startswith("notAfter")
    ]
    assert "O = system:nodes, CN = system:node:bootstrap" in asked[0]


def test_requests_say_nothing_of_what_is_in_it(cluster: Machine, key: str) -> None:
    """Neither a subject, nor who asks, nor a key of the machine itself."""
    for wish in ({"CN": "root"}, {"days_valid": 9999}, {"csr": key}):
        refused = ask(cluster, "kubelet", key, {"__kwarg__": True, **wish})["refused"]
        assert "the policy says what is in it, not who asks" in refused
    refused = ask(cluster, "kubelet", "/etc/kubernetes/pki/ca.key")["refused"]
    assert refused.endswith("what it sent is no public key in PEM")


@pytest.mark.parametrize("policy", ["administrator", "apiserver_to_kubelets"])
def test_nobody_gets_everything(cluster: Machine, key: str, policy: str) -> None:
    """Not even the machine itself, through the master."""
    assert ask(cluster, policy, key) == {
        "refused": f"bootstrap gets no certificate by the policy {policy}: the Salt master gets "
        "none of the group system:masters for anybody"
    }


def test_nobody_says_for_others_who_they_are(cluster: Machine, key: str) -> None:
    """With it, X-Remote-Group: system:masters would be believed."""
    refused = ask(cluster, "apiserver_to_extensions", key)["refused"]
    assert refused.endswith("none of the front proxy's authority for anybody")


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("cmd.run", ["touch /tmp/taken"]),
        ("metalk8s_certificates.issue", ["administrator", "key"]),
        ("metalk8s_certificates.issue_to_minion_", []),
        ("x509.sign_remote_certificate", ["kubelet", {}]),
        (f"{ASK},cmd.run", ["kubelet key", "touch /tmp/taken"]),
        (f"cmd.run,{ASK}", ["touch /tmp/taken", "kubelet key"]),
    ],
)
def test_no_other_function(cluster: Machine, function: str, arguments: list[object]) -> None:
    """The master passes on nothing else, also not beside what it would."""
    assert not ask(cluster, *arguments, function=function)
    assert cluster.call("ls", "/tmp/taken").returncode != 0


@pytest.mark.usefixtures("stranger")
def test_minion_without_a_role(cluster: Machine, key: str) -> None:
    """An accepted key is not enough, nor does it help to call oneself another."""
    refused = {
        "refused": "stranger gets no certificate by the policy salt_minion: it is for the roles "
        "node, etcd, master, bootstrap, the machine's: none"
    }
    assert ask(cluster, "salt_minion", key, configuration=STRANGER) == refused
    for forged in ({"__kwarg__": True, "__pub_id": "bootstrap"}, "__pub_id=bootstrap"):
        assert ask(cluster, "salt_minion", key, forged, configuration=STRANGER) == refused


@pytest.mark.usefixtures("stranger")
def test_minion_that_is_a_node(cluster: Machine, key: str) -> None:
    """With the role that its Node is labelled with, and its own name in the certificate."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "stranger", "labels": {"node-role.kubernetes.io/node": ""}},
    }
    cluster.kubectl("apply -f -", json.dumps(node))
    try:
        certificate = ask(cluster, "salt_minion", key, configuration=STRANGER)["certificate"]
        cluster.write("/root/asked.crt", certificate)
        verify = f"openssl verify -CAfile {PKI}/salt-ca.crt -purpose sslclient /root/asked.crt"
        assert cluster.shell(verify) == "/root/asked.crt: OK\n"
        subject = cluster.shell("openssl x509 -noout -subject -in /root/asked.crt")
        assert subject == "subject=CN = stranger\n"
        refused = ask(cluster, "scheduler", key, configuration=STRANGER)["refused"]
        assert refused.endswith("it is for the roles master, bootstrap, the machine's: node")
    finally:
        cluster.kubectl("delete node stranger --wait=false")
