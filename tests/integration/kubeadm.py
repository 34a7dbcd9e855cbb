"""What kubeadm of the same version would write, and how it differs from what we write.

Documents are compared value by value. A value's path joins keys with ``/``; items of a list go by
their name, command lines by their options: ``spec/containers/etcd/command/--data-dir``.
"""

from __future__ import annotations

import fnmatch
import pathlib
from typing import Any

import yaml

from tests.integration.conftest import run

CONFIGURATION = """\
apiVersion: kubeadm.k8s.io/v1beta2
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: {address}, bindPort: 6443}}
nodeRegistration: {{name: {node}, criSocket: /run/containerd/containerd.sock}}
---
apiVersion: kubeadm.k8s.io/v1beta2
kind: ClusterConfiguration
kubernetesVersion: v{version}
controlPlaneEndpoint: {endpoint}
networking: {{podSubnet: 10.233.0.0/16, serviceSubnet: 10.96.0.0/12}}
"""
PHASES = """
set -eu
for phase in 'certs all' 'kubeconfig all' 'control-plane all' 'etcd local' kubelet-start; do
    /kubeadm/usr/bin/kubeadm init phase $phase --config /kubeadm/configuration.yaml
done
cp -R /etc/kubernetes /var/lib/kubelet /kubeadm/
"""


def generate(
    folder: pathlib.Path,
    package: pathlib.Path,
    image: str,
    node: str,
    address: str,
    version: str,
    vip: str = "",
) -> None:
    """Let kubeadm write everything it writes to a node, in a container without a network.

    :param folder: gets ``kubernetes/`` and ``kubelet/``.
    :param package: the Debian package that has kubeadm.
    :param vip: address of the API server that is no machine's own.
    """
    run("dpkg-deb", "--extract", package, folder)
    endpoint = f"{vip}:6443" if vip else '""'
    text = CONFIGURATION.format(node=node, address=address, version=version, endpoint=endpoint)
    (folder / "configuration.yaml").write_text(text, encoding="utf-8")
    run(
        *("docker", "run", "--rm", "--network=none", f"--hostname={node}"),
        *(f"--volume={folder}:/kubeadm", "--entrypoint=/bin/sh", image, "-c", PHASES),
    )


def flatten(document: Any, path: str = "") -> dict[str, Any]:
    """Give each value of a document by its path; empty ones and durations of no length are none."""
    if isinstance(document, dict):
        items = [(str(key), value) for key, value in document.items()]
    elif isinstance(document, list):
        items = [_item(number, value) for number, value in enumerate(document)]
    else:
        return {} if document in (None, "0s") else {path: document}
    flat = {}
    for key, value in items:
        flat |= flatten(value, f"{path}/{key}" if path else key)
    return flat


def _item(number: int, value: Any) -> tuple[str, Any]:
    if isinstance(value, dict) and "name" in value:
        return str(value["name"]), value
    if isinstance(value, str) and value.startswith("--"):
        option, _, argument = value.partition("=")
        return option, argument
    return str(number), value


def differences(theirs: str, ours: str) -> dict[str, tuple[Any, Any]]:
    """Compare two YAML documents: path → their value and ours, ``None`` where there is none."""
    first, second = flatten(yaml.safe_load(theirs)), flatten(yaml.safe_load(ours))
    return {
        path: (first.get(path), second.get(path))
        for path in sorted(set(first) | set(second))
        if first.get(path) != second.get(path)
    }


def unexplained(
    found: dict[str, dict[str, tuple[Any, Any]]], intended: list[dict[str, str]]
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Hold differences against those that are meant.

    :param found: file → path → values.
    :param intended: ``file`` and ``path`` (patterns), ``reason``.
    :return: differences that no entry names, and entries that name no difference.
    """
    used, left = [], {}
    for file, values in found.items():
        for path, pair in values.items():
            meant = [
                entry
                for entry in intended
                if fnmatch.fnmatchcase(file, entry["file"])
                and fnmatch.fnmatchcase(path, entry["path"])
            ]
            used += meant
            if not meant:
                left[f"{file}: {path}"] = pair
    return left, [entry for entry in intended if entry not in used]
