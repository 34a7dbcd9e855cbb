"""What a machine that is to join says of itself: what it is asked, and how that is read.

Pure: from the lines of ``metalk8s/enrolment/files/survey.sh`` to facts. ``metalk8s_fitness`` says
what of them keeps it from joining.
"""

from __future__ import annotations

import shlex
from typing import Any

MANY = ("account", "address", "changed", "disk", "group", "later_swap", "lost_module", "package",
        "port", "program", "swap", "trace")  # fmt: skip
FAMILIES = {
    **dict.fromkeys(("rhel", "centos", "rocky", "almalinux", "ol"), "redhat"),
    "debian": "debian",
}
# What the survey looks for: as ``bootstrap.sh`` does on the first machine (its checks).
CONFLICTS = tuple(
    """
    containerd containerd.io cri-o cri-tools docker docker-ce docker-ce-cli docker-engine docker.io
    etcd etcd-server k3s kubernetes-client kubernetes-cni kubernetes-node microk8s moby-containerd
    moby-engine podman-docker runc salt salt-api salt-common salt-master salt-minion salt-ssh
    """.split()  # noqa: SIM905 - a list of names reads better than 26 literals
)
SAME_NAME = ("kubeadm", "kubectl", "kubelet")
PROGRAMS = tuple(
    f"usr/local/bin/{name}" for name in ("containerd", "dockerd", "etcd", "k3s", "kubelet", "rke2")
)
TRACES = (
    *("etc/cni/net.d", "etc/kubernetes/admin.conf", "etc/kubernetes/manifests", "etc/rancher"),
    *("var/lib/cni", "var/lib/containerd", "var/lib/etcd", "var/lib/k0s", "var/lib/kubelet"),
)


def questions(kernel: dict[str, Any], authority: str, master_key: str, ours: list[str]) -> str:
    """Return what the survey looks for, as variables of the shell.

    :param kernel: the parameters of that name: modules with their signs, and those on demand.
    :param authority: path of the certificate of Kubernetes' authority.
    :param master_key: path of the public key of the Salt master that it obeys.
    :param ours: names of our packages.
    """
    asked = {
        "modules": sorted({*kernel["modules"], *kernel["modules_on_demand"]}),
        "signs": [f"{name}:{sign}" for name, sign in sorted(kernel["modules"].items())],
        "traces": TRACES,
        "programs": PROGRAMS,
        "names": sorted({*CONFLICTS, *SAME_NAME, *ours}),
        "authority": [authority],
        "master_key": [master_key],
    }
    return "".join(f"{name}={shlex.quote(' '.join(words))}\n" for name, words in asked.items())


def parse(text: str) -> dict[str, Any]:
    """Read what the survey printed; what is no line of it is left out.

    :return: the value of each key; of those that come several times a list, empty without any.
        With them, ``family`` of operating systems (empty for one that we do not know) and
        ``release``, its major version.
    """
    facts: dict[str, Any] = {key: [] for key in MANY}
    for line in text.splitlines():
        key, found, value = line.partition("=")
        if found and key in MANY:
            facts[key].append(value.strip())
        elif found and key.isidentifier():
            facts[key] = value.strip()
    facts["family"] = FAMILIES.get(str(facts.get("os", "")), "")
    facts["release"] = str(facts.get("os_version", "")).partition(".")[0]
    return facts


def offset(facts: dict[str, Any], began: float, ended: float) -> tuple[float, float]:
    """Return how far the other clock is ahead of this one, and how far it is off for certain.

    It was read somewhere between two moments here; a connection that took long proves less.

    :param began: before it was asked, ``ended``: after it had answered; seconds since 1970.
    """
    try:
        there = float(facts.get("time", 0))
    except ValueError:
        there = 0.0
    return there - (began + ended) / 2, max(0.0, began - there, there - ended)
