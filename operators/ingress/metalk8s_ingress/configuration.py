"""The files of HAProxy, of a model. What they name has been checked by ``names`` before.

Paths are relative to the folder that they are in: another version of all of them is another folder,
and what HAProxy calls its maps and certificates stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from metalk8s_ingress.model import DEFAULT, Model, Server
from metalk8s_ingress.names import ANY
from metalk8s_ingress.options import Options
from metalk8s_ingress.settings import Settings
from metalk8s_ingress.slots import Places

MAIN, EXACT, PREFIX = "haproxy.cfg", "exact.map", "prefix.map"
LIST, FALLBACK = "certificates.list", "default.pem"
NOBODY: Server = ("192.0.2.1", 1)  # RFC 5737: no machine has it
RELOADED = "30m"  # how long connections of before a reload may last
NOWHERE = "no Ingress has this host and path"
LENGTH = 'http-request return status 411 content-type text/plain string "how long is it?"'
LOOPBACK = "127.0.0.1"
HTTPS = 443  # what a URL without a port means
TUNNEL = "1h"  # how long a WebSocket may say nothing
# Where a request goes, from what is most exact to what is least: host, wildcard, any host.
LOOKUP = f"""\
    http-request set-var(txn.host) req.hdr(host),host_only,lower,rtrim(.)
    http-request set-var(txn.host) str(-) unless {{ var(txn.host) -m reg ^[a-z0-9._-]+$ }}
    http-request set-var(txn.path) path
    http-request set-var(txn.wild) var(txn.host),regsub(^[^.]+,*)
    http-request set-var(txn.key) var(txn.host),concat(,txn.path)
    http-request set-var(txn.to) var(txn.key),map_str({EXACT})
    http-request set-var(txn.key) var(txn.host),concat(,txn.path,/)
    http-request set-var(txn.to) var(txn.key),map_beg({PREFIX}) unless {{ var(txn.to) -m found }}
    http-request set-var(txn.key) var(txn.wild),concat(,txn.path)
    http-request set-var(txn.to) var(txn.key),map_str({EXACT}) unless {{ var(txn.to) -m found }}
    http-request set-var(txn.key) var(txn.wild),concat(,txn.path,/)
    http-request set-var(txn.to) var(txn.key),map_beg({PREFIX}) unless {{ var(txn.to) -m found }}
    http-request set-var(txn.key) str({ANY}),concat(,txn.path)
    http-request set-var(txn.to) var(txn.key),map_str({EXACT}) unless {{ var(txn.to) -m found }}
    http-request set-var(txn.key) str({ANY}),concat(,txn.path,/)
    http-request set-var(txn.to) var(txn.key),map_beg({PREFIX}) unless {{ var(txn.to) -m found }}
    http-request set-var(txn.to) str({DEFAULT}),map_str({EXACT}) unless {{ var(txn.to) -m found }}
"""


@dataclass(frozen=True)
class Files:
    """All files, and what of them only a reload makes true.

    :param texts: by name.
    :param listed: the hosts of each certificate that is used, by its file.
    :param frame: differs when a reload is needed.
    """

    texts: Mapping[str, str]
    listed: Mapping[str, str]
    frame: str


def render(settings: Settings, known: Model, places: Mapping[str, Places], fallback: str) -> Files:
    """Return the files; without an address, of a HAProxy that nobody outside can ask.

    :param fallback: certificate and key for hosts that have none.
    """
    bodies = {
        name: _backend(settings, name, one.options) for name, one in sorted(known.backends.items())
    }
    frontend = _frontend(settings, known.address) if known.address else ""
    main = _global(settings) + frontend
    listed = _list(known)
    texts = {
        MAIN: main + "".join(f"{text}{_servers(places[name])}" for name, text in bodies.items()),
        EXACT: _map(known.exact),
        PREFIX: _map(known.prefix),
        LIST: "".join(f"{f'{name} {hosts}'.rstrip()}\n" for name, hosts in listed.items()),
        FALLBACK: fallback,
        **{pem_name(key): text for key, text in known.certificates.items()},
    }
    frame = "".join((main, *bodies.values()))
    return Files(texts, listed, hashlib.sha256(frame.encode()).hexdigest())


def pem_name(key: str) -> str:
    """Return the file of a Secret's certificate.

    By a digest: namespace and name together are longer than a file's name may be.
    """
    return f"{hashlib.sha256(key.encode()).hexdigest()}.pem"


def server(number: int) -> str:
    """Return what HAProxy calls a place."""
    return f"s{number}"


def literal(one: Server | None) -> str:
    """Return where a server of a place is; the one of an empty place is nowhere."""
    address, port = one or NOBODY
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def entries(table: Mapping[str, str]) -> list[str]:
    """Return the lines of a map."""
    return [f"{key} {value}" for key, value in sorted(table.items())]


def _map(table: Mapping[str, str]) -> str:
    return "".join(f"{line}\n" for line in entries(table))


def _list(model: Model) -> dict[str, str]:
    """Return which certificate is for which hosts. The first is for all others."""
    hosts: dict[str, list[str]] = {}
    for host, key in sorted(model.hosts.items()):
        hosts.setdefault(key, []).append(host)
    return {FALLBACK: "", **{pem_name(key): " ".join(some) for key, some in hosts.items()}}


def _global(settings: Settings) -> str:
    return f"""# {settings.header}
global
    default-path config
    log stderr format raw local0 notice
    stats socket {settings.worker} mode 660 level admin expose-fd listeners
    maxconn {settings.connections}
    hard-stop-after {RELOADED}
    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets
    ssl-default-bind-ciphers ECDHE+AESGCM:ECDHE+CHACHA20

defaults
    mode http
    log global
    option dontlognull
    option http-keep-alive
    option redispatch 1
    retries 3
    retry-on conn-failure empty-response
    balance roundrobin
    timeout http-request 10s
    timeout http-keep-alive 60s
    timeout client 60s
    timeout client-fin 10s
    timeout queue 10s
    timeout tunnel {TUNNEL}
    timeout connect {Options().connect}ms
    timeout server {Options().server}ms

frontend health
    bind {LOOPBACK}:{settings.metrics}
    option dontlog-normal
    monitor-uri /healthz
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request return status 404
"""


def _frontend(settings: Settings, address: str) -> str:
    here = f"[{address}]" if ":" in address else address
    plain = f"    bind {here}:{settings.http}\n" if settings.http else ""
    return f"""
frontend requests
{plain}    bind {here}:{settings.https} ssl crt-list {LIST} alpn h2,http/1.1
    option idle-close-on-response
    option dontlog-normal
{LOOKUP}    http-request set-header X-Forwarded-For %[src]
    http-request set-header X-Forwarded-Host %[req.hdr(host)]
    http-request set-header X-Forwarded-Proto https if {{ ssl_fc }}
    http-request set-header X-Forwarded-Proto http unless {{ ssl_fc }}
    http-request set-header X-Forwarded-Port %[dst_port]
    http-request disable-l7-retry unless {{ method GET HEAD OPTIONS }}
    use_backend %[var(txn.to)] if {{ var(txn.to) -m found }}
    default_backend nowhere

backend nowhere
    http-request return status 404 content-type text/plain string "{NOWHERE}"
"""


def _backend(settings: Settings, name: str, chosen: Options) -> str:
    lines = [
        f"backend {name}",
        f"timeout connect {chosen.connect}ms",
        f"timeout server {chosen.server}ms",
        # One that answers slowly does not get the connections of all others.
        f"http-request deny deny_status 503 if {{ be_conn gt {settings.connections // 2} }}",
    ]
    if chosen.redirect:
        port = "" if settings.https == HTTPS else f":{settings.https}"
        lines.append(
            f"http-request redirect prefix https://%[var(txn.host)]{port} code 308 "
            "if !{ ssl_fc } !{ var(txn.host) -m str -- - }"
        )
    if chosen.body:
        lines += [
            f"http-request deny deny_status 413 if {{ req.body_size gt {chosen.body} }}",
            # Nobody knows how long it will be.
            f"{LENGTH} if !{{ req.hdr(content-length) -m found }} {{ method POST PUT PATCH }}",
            f"{LENGTH} if {{ req.hdr(transfer-encoding) -m found }}",
        ]
    return "\n    ".join(["\n" + lines[0], *lines[1:]]) + "\n"


def _servers(places: Places) -> str:
    lines = []
    for number, one in enumerate(places):
        off = "" if one else " disabled"
        lines.append(f"    server {server(number)} {literal(one)}{off}\n")
    return "".join(lines)
