"""The configuration of Knot, which has the names of the cluster, and of Unbound, whom pods ask."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from metalk8s_dns.settings import Settings, Site

LOOPBACK = "127.0.0.1"


def authority(settings: Settings) -> str:
    """Return Knot's. The zones have no files: the journal is where they are after a restart."""
    zones = "".join(f"  - domain: {zone}\n" for zone in all_zones(settings))
    return f"""# {settings.header}
server:
    rundir: {settings.authority}
    listen: {LOOPBACK}@{settings.authority_port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
    identity: ""
    version: ""
control:
    listen: {settings.socket}
    timeout: 10
log:
  - target: stderr
    any: warning
database:
    storage: {settings.authority}
    journal-db-mode: asynchronous
    journal-db-max-size: 128M
template:
  - id: default
    storage: {settings.authority}
    zonefile-sync: -1
    zonefile-load: none
    journal-content: all
    journal-max-usage: 32M
    serial-policy: unixtime
    semantic-checks: off
zone:
{zones}"""


def cache(settings: Settings, servers: tuple[IPv4Address | IPv6Address, ...]) -> str:
    """Return Unbound's.

    :param servers: that know all other names; without any, other names are refused.
    """
    own = all_zones(settings)
    known = (*own, *(site.zone for site in settings.sites))
    # Not answered by Unbound itself, as names of private networks are otherwise.
    local = "".join(f'    local-zone: "{zone}" transparent\n' for zone in known)
    nobody = "" if servers else '    local-zone: "." always_refuse\n'
    stubs = "".join(
        f'stub-zone:\n    name: "{zone}"\n    stub-addr: {LOOPBACK}@{settings.authority_port}\n'
        for zone in own
    )
    forwards = "".join(_forward(site) for site in settings.sites)
    others = _forward(Site(".", servers)) if servers else ""
    return f"""# {settings.header}
server:
    interface: 0.0.0.0@{settings.cache_port}
    interface: ::0@{settings.cache_port}
    access-control: 0.0.0.0/0 allow
    access-control: ::0/0 allow
    num-threads: 1
    chroot: ""
    username: ""
    directory: ""
    use-syslog: no
    logfile: ""
    log-servfail: yes
    module-config: "iterator"
    do-not-query-localhost: no
    qname-minimisation: no
    # the additional records of SRV
    minimal-responses: no
    rrset-roundrobin: yes
    edns-buffer-size: 1232
    unblock-lan-zones: yes
    hide-identity: yes
    hide-version: yes
    # a server that was away is asked again within seconds
    infra-host-ttl: 5
    infra-keep-probing: yes
    cache-max-ttl: 3600
    cache-max-negative-ttl: 30
    msg-cache-size: 16m
    rrset-cache-size: 32m
{local}{nobody}remote-control:
    control-enable: yes
    control-interface: {settings.cache_socket}
    control-use-cert: no
{stubs}{forwards}{others}"""


def all_zones(settings: Settings) -> tuple[str, ...]:
    """Return the zones that Knot has."""
    return (settings.domain, *settings.reverse_zones)


def _forward(site: Site) -> str:
    addresses = "".join(f"    forward-addr: {one}\n" for one in site.servers)
    return f'forward-zone:\n    name: "{site.zone}"\n{addresses}'
