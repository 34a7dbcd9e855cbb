"""``python3 -m metalk8s_pod_network``: the program of the pod on each machine."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

from metalk8s_operators.client import Client
from metalk8s_operators.informer import Informer
from metalk8s_operators.report import Health, say, serve

from metalk8s_pod_network import events, settings
from metalk8s_pod_network.agent import Agent
from metalk8s_pod_network.kernel import Kernel
from metalk8s_pod_network.peers import Peer, peer


def main(arguments: Sequence[str]) -> int:
    """Run until the machine says that it is enough."""
    chosen = settings.read(arguments)
    stop, health = threading.Event(), Health()
    heard = threading.Event()
    nodes: Informer[Peer] = Informer(
        Client(chosen.api), "/api/v1/nodes", peer, heard.set, lambda what: say("warning", what)
    )
    agent = Agent(chosen, nodes, Kernel(), health, heard)

    def leave(*_signal: object) -> None:
        stop.set()
        heard.set()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    server = serve(health, chosen.health_port)
    events.listen(heard.set)
    threading.Thread(target=nodes.run, args=(stop,), name="nodes", daemon=True).start()
    say("info", "began", node=chosen.node, api=chosen.api)
    agent.run(stop)
    server.shutdown()
    say("info", "ended")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
