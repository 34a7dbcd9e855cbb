"""Knot, Unbound and the program, as they are in a pod."""

from __future__ import annotations

import contextlib
import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from api_server import ApiServer, _Handler
from metalk8s_dns import configuration, settings
from metalk8s_dns.authority import Authority, AuthorityError
from metalk8s_dns.settings import Site
from question import ask
from waiting import until

ROOT = Path(__file__).parents[1]
DOMAIN = "cluster.local."


def free_ports(count):
    """Return ports of loopback that nobody has, neither of UDP nor of TCP."""
    with contextlib.ExitStack() as held:
        found = []
        while len(found) < count:
            one = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            other = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            one.bind(("127.0.0.1", 0))
            with contextlib.suppress(OSError):
                other.bind(one.getsockname())
                found.append(one.getsockname()[1])
        return found


class Bed:
    def __init__(self, folder):
        authority, cache, health = free_ports(3)
        self.words = [
            *("--domain=cluster.local", "--server=10.96.0.10", "--network=10.96.0.0/12"),
            *("--network=10.233.0.0/16", f"--authority={folder}/a", f"--cache={folder}/c"),
            *(f"--authority-port={authority}", f"--cache-port={cache}"),
            *(f"--health-port={health}", f"--resolvers={folder}/resolv.conf"),
        ]
        self.settings = settings.read(["watch", *self.words])
        for name in ("a", "c"):
            (folder / name).mkdir(parents=True)
        self.port = self.settings.cache_port
        self.authority = Authority(self.settings.socket, DOMAIN)
        self._running = {}
        self._folder = folder

    def start_knot(self):
        file = self._folder / "a/knot.conf"
        file.write_text(configuration.authority(self.settings))
        self._start("knotd", ["knotd", "-c", file])
        # One that was killed has left its socket.
        until(self._is_heard, "Knot")
        until(lambda: ask(self.settings.authority_port, DOMAIN, timeout=0.2), "Knot's port")

    def _is_heard(self):
        with contextlib.suppress(AuthorityError):
            self.authority.serials(())
            return True

    def start_unbound(self, upstream=None, sites=()):
        """Start it; resolvers at ports of loopback, which a pod's are not, stand in for others."""
        text = configuration.cache(self.settings, ())
        if upstream:
            other = configuration._forward(Site(".", (f"127.0.0.1@{upstream}",)))
            text = text.replace('    local-zone: "." always_refuse\n', "") + other
        for site in sites:
            text += configuration._forward(site)
        file = self._folder / "c/unbound.conf"
        file.write_text(text)
        self._start("unbound", ["unbound", "-d", "-p", "-c", file])
        try:
            until(lambda: ask(self.port, "localhost.", timeout=0.2), "Unbound")
        except AssertionError as error:
            raise AssertionError(self.log("unbound")) from error

    def start_program(self, url):
        paths = [str(ROOT), str(ROOT.parent / "library")]
        script = (
            f"import sys; sys.path += {paths!r}; import runpy; "
            f"runpy.run_module('metalk8s_dns', run_name='__main__', alter_sys=True)"
        )
        words = [sys.executable, "-B", "-c", script, "watch", f"--api={url}", *self.words]
        self._start("program", words)

    def _start(self, name, words):
        log = (self._folder / f"{name}.log").open("ab")
        with log:
            self._running[name] = subprocess.Popen(
                list(map(str, words)), stdout=log, stderr=log, env={**os.environ, "LC_ALL": "C"}
            )

    def stop(self, name, how=signal.SIGTERM):
        process = self._running.pop(name)
        process.send_signal(how)
        return process.wait(20)

    def log(self, name):
        return (self._folder / f"{name}.log").read_text()

    def memory(self, name):
        """Return the most that a program had, in MiB."""
        status = Path(f"/proc/{self._running[name].pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) / 1024

    def close(self):
        for name in list(self._running):
            self.stop(name, signal.SIGKILL)


class Api:
    """An API server with three collections."""

    def __init__(self):
        self.services, self.endpoints, self.pods = ApiServer(), ApiServer(), ApiServer()
        parts = {"services": self.services, "endpoints": self.endpoints, "pods": self.pods}

        class Handler(_Handler):
            def do_GET(self):  # noqa: N802
                self.api = parts[self.path.partition("?")[0].rpartition("/")[2]]
                super().do_GET()

        self._front = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._front.daemon_threads = True
        threading.Thread(target=self._front.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._front.server_port}"

    def close(self):
        self._front.shutdown()
        self._front.server_close()
        for part in (self.services, self.endpoints, self.pods):
            part.close()
