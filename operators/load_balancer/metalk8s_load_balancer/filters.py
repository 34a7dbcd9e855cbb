"""A table of the packet filter: at an address of a Service, there is that Service and nothing else.

kube-proxy gives what is for a port of the Service another destination before. What still has the
address as its destination after that is for no Service: it neither reaches a program of the machine
that listens at all addresses, nor goes back to where it came from.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address

TABLE = "metalk8s_load_balancer"
REMOVAL = f"table ip {TABLE}\ndelete table ip {TABLE}\n"
VRRP = 112


def render(addresses: Iterable[IPv4Address], own: IPv4Address, header: str) -> str:
    """Return what ``nft`` loads in one step.

    :param own: address of the machine.
    """
    elements = ", ".join(str(one) for one in sorted(addresses))
    return f"""# {header}
{REMOVAL}table ip {TABLE} {{
    set addresses {{
        type ipv4_addr
        elements = {{ {elements} }}
    }}
    chain input {{
        type filter hook input priority filter - 5; policy accept;
        # a keepalived without peers tells itself
        iifname "lo" ip protocol {VRRP} ip saddr {own} drop
        ip daddr @addresses icmp type echo-request accept
        ip daddr @addresses ct state established,related accept
        ip daddr @addresses counter drop
    }}
    chain forward {{
        type filter hook forward priority filter - 5; policy accept;
        ip daddr @addresses counter drop
    }}
}}
"""
