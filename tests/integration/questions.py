"""Questions to the servers of a cluster, asked on the machine itself: see ``data/ask.py``."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from tests.testbed.machine import Machine

DATA = pathlib.Path(__file__).parent / "data"
PLACE = "/root/ask.py"
PKI = "/etc/kubernetes/pki"
# Of the group system:masters, out of the administrator's kubeconfig; and of who may say for others
# who they are.
ALMIGHTY = {"certificate": "/root/administrator.crt", "key": "/root/administrator.key"}
EXTRACT = """
umask 077
for pair in certificate:crt key:key; do
    sed -n "s/^ *client-${pair%:*}-data: //p" /etc/kubernetes/admin.conf | base64 -d \\
        >/root/administrator.${pair#*:}
done
"""
FRONT_PROXY = {
    "certificate": f"{PKI}/front-proxy-client.crt",
    "key": f"{PKI}/front-proxy-client.key",
}


def asked(machine: Machine, questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask them all; those without a ``server`` are for the API server.

    :return: ``status`` and ``body`` of each.
    """
    machine.send(DATA / "ask.py", PLACE)
    machine.shell(EXTRACT)
    server = f"{machine.address}:6443"
    whole = [{"server": server, **question} for question in questions]
    answers = json.loads(machine.shell(f"python3 {PLACE}", json.dumps(whole)))
    assert isinstance(answers, list)
    return answers


def review(
    verb: str, resource: str, subresource: str = "", group: str = "", namespace: str = "kube-system"
) -> dict[str, Any]:
    """Make the question whether who asks may do something (SelfSubjectAccessReview)."""
    attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
    if subresource:
        attributes["subresource"] = subresource
    return {
        "method": "POST",
        "path": "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "body": {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        },
    }
