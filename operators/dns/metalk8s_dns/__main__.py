"""``python3 -m metalk8s_dns``: ``configure`` Knot and Unbound, or ``watch`` and feed Knot."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

from metalk8s_operators.client import Client
from metalk8s_operators.report import Health, say, serve

from metalk8s_dns import configuration, resolvers, settings
from metalk8s_dns.authority import Authority
from metalk8s_dns.cache import Cache
from metalk8s_dns.catalog import Catalog
from metalk8s_dns.cluster import Cluster
from metalk8s_dns.settings import Settings
from metalk8s_dns.watcher import Watcher

EVERYWHERE = ""  # the kubelet asks at the address of the pod


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; for ``watch``, until told that it is enough."""
    chosen = settings.read(arguments)
    if chosen.action == "configure":
        configure(chosen)
    else:
        watch(chosen)
    return 0


def configure(chosen: Settings) -> None:
    """Write what Knot and Unbound read when they start."""
    text = chosen.resolvers.read_text(encoding="utf-8", errors="replace")
    servers = resolvers.read(text, [chosen.server])
    if not servers:
        say("warning", f"{chosen.resolvers} names no resolver: other names are refused")
    (chosen.authority / "knot.conf").write_text(configuration.authority(chosen), encoding="utf-8")
    (chosen.cache / "unbound.conf").write_text(
        configuration.cache(chosen, servers), encoding="utf-8"
    )
    say("info", "configured", resolvers=[str(one) for one in servers])


def watch(chosen: Settings) -> None:
    """Feed Knot."""
    stop, heard, health = threading.Event(), threading.Event(), Health()
    cluster = Cluster(Client(chosen.api), heard.set)
    watcher = Watcher(
        Catalog(chosen.domain, chosen.server, chosen.reverse_zones),
        cluster,
        Authority(chosen.socket, chosen.domain),
        Cache(chosen.cache_socket),
        health,
        heard,
    )

    def leave(*_signal: object) -> None:
        stop.set()
        heard.set()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    server = serve(health, chosen.health_port, EVERYWHERE)
    cluster.follow(stop)
    say("info", "began", api=chosen.api)
    watcher.run(stop)
    server.shutdown()
    say("info", "ended")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
