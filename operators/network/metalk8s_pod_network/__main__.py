"""``python3 -m metalk8s_pod_network``: the program of the pod on each machine."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from metalk8s_operators.client import Client
from metalk8s_operators.informer import Informer
from metalk8s_operators.report import Health, say, serve

from metalk8s_pod_network import events, settings
from metalk8s_pod_network.agent import Agent
from metalk8s_pod_network.isolation.isolation import Isolation, Sources
from metalk8s_pod_network.isolation.pods import namespace, pod
from metalk8s_pod_network.isolation.policies import policy
from metalk8s_pod_network.kernel import Kernel
from metalk8s_pod_network.peers import peer
from metalk8s_pod_network.settings import Settings

Kept = TypeVar("Kept")


def _informer(
    chosen: Settings,
    path: str,
    keep: Callable[[dict[str, Any]], Kept | None],
    heard: threading.Event,
) -> Informer[Kept]:
    return Informer(Client(chosen.api), path, keep, heard.set, lambda what: say("warning", what))


def main(arguments: Sequence[str]) -> int:
    """Run until the machine says that it is enough."""
    chosen = settings.read(arguments)
    stop, health = threading.Event(), Health()
    heard = threading.Event()
    nodes = _informer(chosen, "/api/v1/nodes", peer, heard)
    pods = _informer(chosen, "/api/v1/pods", pod, heard)
    namespaces = _informer(chosen, "/api/v1/namespaces", namespace, heard)
    policies = _informer(chosen, "/apis/networking.k8s.io/v1/networkpolicies", policy, heard)
    isolation = Isolation(chosen, Sources(pods, namespaces, policies))
    agent = Agent(chosen, nodes, isolation, Kernel(), health, heard)

    def leave(*_signal: object) -> None:
        stop.set()
        heard.set()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    server = serve(health, chosen.health_port)
    events.listen(heard.set)
    events.watch(chosen.sandboxes, heard.set)
    for run in (nodes.run, pods.run, namespaces.run, policies.run):
        threading.Thread(target=run, args=(stop,), daemon=True).start()
    say("info", "began", node=chosen.node, api=chosen.api)
    agent.run(stop)
    server.shutdown()
    say("info", "ended")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
