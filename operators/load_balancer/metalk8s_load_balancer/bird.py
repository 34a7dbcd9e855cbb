"""The configuration of BIRD: the addresses that this machine tells routers of the site, by BGP.

Each machine that may have an address tells of it, as a network of one; routers spread over them.
Nothing is learned from routers, and nothing comes into the kernel's table of routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address

from metalk8s_load_balancer.objects import Node
from metalk8s_load_balancer.peers import Peer
from metalk8s_load_balancer.placement import Place
from metalk8s_load_balancer.pools import BGP

# Milliseconds between two words of BFD; silence of three, and the other side is dead.
INTERVAL, WORDS = 100, 3
LONGEST = 80  # bytes of a password: TCP_MD5SIG_MAXKEYLEN of the kernel


class PasswordError(Exception):
    """A password is not there, or is none that can be used; says nothing of what it is."""


def told(places: Iterable[Place], node: str) -> tuple[IPv4Address, ...]:
    """Return the addresses that a machine tells of.

    One that is about to be out of service does so only when no other is left.
    """
    found = []
    for place in places:
        steady = [one.name for one in place.nodes if one.is_steady]
        if place.announce == BGP and node in (steady or [one.name for one in place.nodes]):
            found.append(place.address)
    return tuple(sorted(found))


def render(
    addresses: Sequence[IPv4Address],
    peers: Iterable[Peer],
    node: Node,
    password: Callable[[str], str],
    header: str,
) -> str:
    """Return the configuration of one machine; empty when it has nothing to tell, or nobody.

    :param password: by its key.
    :raises PasswordError: from ``password``, or it has characters that BIRD does not take.
    """
    own = sorted((one for one in peers if one.is_for(node)), key=lambda one: one.name)
    if not addresses or not own:
        return ""
    routes = "".join(f"    route {one}/32 blackhole;\n" for one in addresses)
    sessions = "".join(_session(*entry, node, password) for entry in enumerate(own))
    return f"""# {header}
log stderr {{ info, remote, warning, error, auth, fatal, bug }};
router id {node.address};
protocol device {{
}}
protocol bfd {{
    accept ipv4 direct;
    interface "*" {{
        min rx interval {INTERVAL} ms;
        min tx interval {INTERVAL} ms;
        idle tx interval 1 s;
        multiplier {WORDS};
    }};
}}
protocol static addresses {{
    ipv4;
{routes}}}
{sessions}"""


def _session(number: int, peer: Peer, node: Node, password: Callable[[str], str]) -> str:
    secret = ""
    if peer.password_key:
        secret = f'    password "{_safe(peer.password_key, password(peer.password_key))}";\n'
    return f"""
# {peer.name}
protocol bgp peer_{number} {{
    local {node.address} as {peer.own_as};
    neighbor {peer.address} as {peer.peer_as};
    strict bind yes;
{secret}    hold time {peer.hold};
    connect delay time 1;
    connect retry time 5;
    error wait time 1, 10;
    bfd {"on" if peer.bfd else "off"};
    ipv4 {{
        import none;
        export where proto = "addresses";
        next hop self;
    }};
}}
"""


def _safe(key: str, text: str) -> str:
    is_plain = text.isascii() and text.isprintable() and '"' not in text
    if not is_plain or not 0 < len(text) <= LONGEST:
        raise PasswordError(
            f"the password {key} of BGP has to be 1 to {LONGEST} printable characters of ASCII, "
            'and none of them "'
        )
    return text
