"""``python3 -m metalk8s_load_balancer allocate``, of two pods, and ``speak``, of each machine."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

from metalk8s_operators.client import Client
from metalk8s_operators.leader import Election
from metalk8s_operators.report import LOOPBACK, Health, say, serve

from metalk8s_load_balancer import settings
from metalk8s_load_balancer.allocator import Allocator
from metalk8s_load_balancer.cluster import Cluster, Surroundings
from metalk8s_load_balancer.programs import Bird, Keepalived
from metalk8s_load_balancer.settings import Settings
from metalk8s_load_balancer.speaker import Speaker

EVERYWHERE = ""  # the kubelet asks a pod at its own address
LEASE = "load-balancer"
PATIENCE = 60.0  # seconds between two signs of life of a copy that does not lead
GIVE_BACK = 5.0  # seconds for that


def main(arguments: Sequence[str]) -> int:
    """Run until told that it is enough."""
    chosen = settings.read(arguments)
    stop, heard = threading.Event(), threading.Event()

    def leave(*_signal: object) -> None:
        stop.set()
        heard.set()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    program = allocate if chosen.action == "allocate" else speak
    say("info", "began", action=chosen.action, api=chosen.api)
    program(chosen, stop, heard)
    say("info", "ended")
    return 0


def allocate(chosen: Settings, stop: threading.Event, heard: threading.Event) -> None:
    """Give addresses, whenever no other copy does."""
    health, client = Health(), Client(chosen.api)
    server = serve(health, chosen.health_port, EVERYWHERE)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{chosen.namespace}/leases"
    election = Election(client, leases, LEASE, chosen.node, heard.set, lambda w: say("warning", w))
    thread = threading.Thread(target=election.run, args=(stop,), daemon=True)
    thread.start()
    while not stop.is_set():
        heard.clear()
        if election.leads():
            say("info", "leads")
            _lead(chosen, client, election, health, stop, heard)
            say("info", "leads no longer")
        else:
            health.beat("", {})  # ready to lead
            heard.wait(PATIENCE)
    thread.join(GIVE_BACK)
    server.shutdown()


def _lead(
    chosen: Settings,
    client: Client,
    election: Election,
    health: Health,
    stop: threading.Event,
    heard: threading.Event,
) -> None:
    # Anew each time: what the one before has written is in the first list.
    over = threading.Event()
    cluster = Cluster(client, heard.set)
    cluster.follow(over)
    Allocator(client, cluster, election.leads, chosen.reserved, health, heard).run(stop)
    over.set()


def speak(chosen: Settings, stop: threading.Event, heard: threading.Event) -> None:
    """Bring addresses to this machine."""
    health = Health()
    server = serve(health, chosen.health_port, LOOPBACK)
    known = Surroundings(Client(chosen.api), heard.set, chosen.networks)
    known.follow(stop)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    chosen.folder.chmod(0o700)  # passwords of BGP are in it
    programs = (Keepalived(chosen.folder, heard.set), Bird(chosen.folder, heard.set))
    Speaker(chosen, known, programs, health, heard).run(stop)
    server.shutdown()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
