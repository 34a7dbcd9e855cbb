"""How this machine is, as whoever looks after the cluster wants to know it. Changes nothing."""

from __future__ import annotations

import base64
import calendar
import pathlib
import shutil
import time
from typing import Any

import yaml

ROOT = "/"
# Certificates as files, and as parts of kubeconfigs.
CERTIFICATES = (
    "etc/kubernetes/pki/*.crt",
    "etc/kubernetes/pki/*/*.crt",
    "etc/kubernetes/*.conf",
    "etc/metalk8s/pki/*.crt",
    "etc/metalk8s/*/tls/*.crt",
)
# What fills up: each on its own disk, or all on one.
FOLDERS = ("", "var/lib/containerd", "var/lib/etcd", "var/lib/kubelet", "var/log")
SERVICES = ("containerd", "kubelet", "salt-minion")
API_SERVER = "etc/kubernetes/manifests/kube-apiserver.yaml"
# Of a program beside the API server, which speaks with this one and no other.
BESIDE = "etc/kubernetes/controller-manager.conf"
DAY = 86400  # seconds
WRITTEN = "%Y-%m-%d %H:%M:%S"  # by Salt, in UTC


def facts() -> dict[str, Any]:
    """Say how this machine is.

    :return: ``certificates`` (``path``, ``days`` that are left, or ``problem``), ``disks``
        (``path``, ``free`` and ``size`` in bytes), ``services`` (name → whether it runs),
        ``versions`` of packages, ``api_server`` (whether it is ready; nothing where there is
        none), ``clock`` (of ``metalk8s_clock.status``), ``time`` (seconds since 1970, the last
        that is looked at).
    """
    there = [name for name in SERVICES if __salt__["service.available"](name)]
    return {
        "certificates": [_certificate(path) for path in _files(*CERTIFICATES)],
        "disks": _disks(),
        "services": {name: bool(__salt__["service.status"](name)) for name in there},
        "versions": {name: __salt__["pkg.version"](name) for name in SERVICES},
        "api_server": _api_server(),
        "clock": __salt__["metalk8s_clock.status"](),
        "time": time.time(),
    }


def _files(*patterns: str) -> list[pathlib.Path]:
    found = {path for pattern in patterns for path in pathlib.Path(ROOT).glob(pattern)}
    return sorted(path for path in found if path.is_file())


def _certificate(path: pathlib.Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="ascii")
        if path.suffix == ".conf":
            user = yaml.safe_load(text)["users"][0]["user"]
            text = base64.b64decode(user["client-certificate-data"]).decode("ascii")
        end = __salt__["x509.read_certificate"](text)["not_after"]
        left = calendar.timegm(time.strptime(end, WRITTEN)) - time.time()
    except Exception as error:  # whatever it is: one that cannot be read is a finding
        return {"path": str(path), "problem": f"{type(error).__name__}: {error}"}
    return {"path": str(path), "days": round(left / DAY, 1)}


def _disks() -> list[dict[str, Any]]:
    """Look at each disk once, by the longest path that is on it."""
    disks = {}
    for folder in FOLDERS:
        path = pathlib.Path(ROOT, folder)
        if path.is_dir():
            usage = shutil.disk_usage(path)
            device = path.stat().st_dev
            disks.setdefault(device, {"path": str(path), "free": usage.free, "size": usage.total})
    return list(disks.values())


def _api_server() -> bool | None:
    if not pathlib.Path(ROOT, API_SERVER).exists():
        return None
    return bool(__salt__["metalk8s_kubernetes.ready"](str(pathlib.Path(ROOT, BESIDE))))
