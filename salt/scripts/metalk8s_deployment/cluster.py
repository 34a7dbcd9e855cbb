"""The cluster, as the bootstrap machine's administrator reaches it: ``kubectl``."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass

from metalk8s_bootstrap.system import StepError, System

KUBECONFIG = "/etc/kubernetes/admin.conf"
SCHEDULER = "/etc/kubernetes/scheduler.conf"
SERVER = re.compile(r"(?m)^ +server: (https://\S+)$")
NAMESPACE = "kube-system"
MASTER = "app.kubernetes.io/name=salt-master"
# Seconds that the API server and the Salt master may be away: steps start both anew, and after
# bootstrap.sh it takes a while until the API server knows of the pod.
OUTAGE, PAUSE = 120, 1


class UnreachableError(Exception):
    """The cluster or its Salt master does not answer; the text is a sentence for the operator."""


@dataclass(frozen=True)
class Cluster:
    """Calls of ``kubectl``; each is in the log.

    :param patience: seconds that the cluster may be away.
    """

    system: System
    patience: float = OUTAGE

    def _kubectl(self, *words: str) -> list[str]:
        where = [f"--kubeconfig={self.system.path(KUBECONFIG)}", *self._beside()]
        return ["kubectl", *where, f"--namespace={NAMESPACE}", *words]

    def _beside(self) -> list[str]:
        """Name the API server of this machine, which its scheduler uses.

        The virtual address of the administrator's moves while machines join and leave, and a
        connection to where it was hangs. The balancer, which the kubelet asks, is started anew
        whenever a master comes or goes, and cuts off the command that does it.
        """
        file = self.system.path(SCHEDULER)
        found = SERVER.search(file.read_text(encoding="utf-8")) if file.is_file() else None
        return [f"--server={found[1]}"] if found else []

    def apply(self, manifest: str) -> None:
        """Apply a manifest.

        :raises StepError: the API server rejects it.
        """
        sentence = f"the manifest {manifest} cannot be applied"
        self.system.run(self._kubectl("apply", "--filename", manifest), sentence=sentence)

    def master(self) -> str:
        """Return the name of the pod of the Salt master, as soon as it is ready.

        :raises UnreachableError: it is not in all the time that it may be away.
        """
        until = time.monotonic() + self.patience
        while True:
            try:
                return self._master()
            except UnreachableError:
                if time.monotonic() >= until:
                    raise
                time.sleep(PAUSE)

    def _master(self) -> str:
        argv = self._kubectl("get", "pods", f"--selector={MASTER}", "--output=json")
        try:
            said = self.system.run(argv, sentence="the API server does not answer")
            pods = json.loads(said)["items"]
        except (StepError, ValueError, KeyError, TypeError) as error:
            raise UnreachableError(f"{error}. Is the cluster up? {' '.join(argv)}") from error
        for pod in pods:
            conditions = pod.get("status", {}).get("conditions", [])
            if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
                return str(pod["metadata"]["name"])
        raise UnreachableError(
            f"the Salt master is not running ({len(pods)} pods, none is ready). Look at it: "
            f"{' '.join(self._kubectl('describe', 'pods', f'--selector={MASTER}'))}"
        )

    def within(self, pod: str, *words: str) -> list[str]:
        """Return the command that runs a program in a pod, with our standard input."""
        return self._kubectl("exec", "--stdin", pod, "--", *words)
