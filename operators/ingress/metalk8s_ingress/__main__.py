"""``python3 -m metalk8s_ingress``: ``configure`` HAProxy, or ``watch`` and keep it up to date."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

from metalk8s_operators.client import Client
from metalk8s_operators.report import Health, say, serve

from metalk8s_ingress import configuration, settings
from metalk8s_ingress.cluster import Cluster
from metalk8s_ingress.controller import Controller
from metalk8s_ingress.haproxy import Haproxy
from metalk8s_ingress.model import Model
from metalk8s_ingress.proxy import Proxy
from metalk8s_ingress.reports import Reports
from metalk8s_ingress.secrets import Secrets
from metalk8s_ingress.settings import Settings
from metalk8s_ingress.versions import Versions

DAYS = 3650  # nobody believes it, and it goes with the pod


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; for ``watch``, until told that it is enough."""
    chosen = settings.read(arguments)
    if chosen.action == "configure":
        configure(chosen)
    else:
        watch(chosen)
    return 0


def configure(chosen: Settings) -> None:
    """Write what HAProxy begins with: it listens nowhere outside until there is a model."""
    key, certificate = chosen.folder / "own.key", chosen.folder / "own.crt"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", str(DAYS), "-subj", "/CN=no certificate for this host"),
            *("-keyout", str(key), "-out", str(certificate), "-config", "/dev/null"),
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    pem = certificate.read_text(encoding="ascii") + key.read_text(encoding="ascii")
    for file in (key, certificate, chosen.own_certificate):
        file.unlink(missing_ok=True)
    chosen.own_certificate.touch(mode=0o600)
    chosen.own_certificate.write_text(pem, encoding="ascii")
    versions = Versions(chosen.versions, chosen.current)
    versions.hold(versions.write(configuration.render(chosen, Model(), {}, pem).texts))
    say("info", "configured")


def watch(chosen: Settings) -> None:
    """Keep HAProxy up to date."""
    stop, heard, health = threading.Event(), threading.Event(), Health()
    client = Client(chosen.api)
    cluster = Cluster(client, heard.set)
    secrets = Secrets(
        client, chosen.folder, chosen.poll, heard.set, lambda what: say("warning", what)
    )
    controller = Controller(
        chosen,
        cluster,
        secrets,
        Proxy(chosen, Haproxy(chosen.worker, chosen.master)),
        Reports(chosen, client),
        health,
        heard,
    )

    def leave(*_signal: object) -> None:
        stop.set()
        heard.set()

    # The last one is what stops HAProxy, and the image is the same.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, leave)
    server = serve(health, chosen.health)
    cluster.follow(stop)
    threading.Thread(target=secrets.run, args=(stop,), daemon=True).start()
    say("info", "began", api=chosen.api, controller=chosen.controller)
    controller.run(stop)
    server.shutdown()
    say("info", "ended")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
