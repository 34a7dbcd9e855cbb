"""The kernel's word that something of its network has changed.

What is said is not read: any word is a reason to compare. So a route that somebody took away, or a
packet filter that somebody emptied, is back within a second.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

# linux/rtnetlink.h, linux/netlink.h, linux/netfilter/nfnetlink.h
RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV4_RULE = 0x1, 0x10, 0x40, 0x80
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 270, 1
NETLINK_NETFILTER, NFNLGRP_NFTABLES = 12, 7
WORD = 65536  # bytes, more than one message has


def listen(changed: Callable[[], None]) -> list[threading.Thread]:
    """Call a function at every word, from threads of their own.

    :raises OSError: the kernel does not let this program listen.
    """
    routes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV4_RULE
    routes.bind((0, groups))
    packets = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    packets.bind((0, 0))
    packets.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NFNLGRP_NFTABLES)
    threads = [
        threading.Thread(target=_follow, args=(one, changed), name=name, daemon=True)
        for one, name in ((routes, "routes"), (packets, "packets"))
    ]
    for thread in threads:
        thread.start()
    return threads


def _follow(words: socket.socket, changed: Callable[[], None]) -> None:
    while True:
        # ENOBUFS: more was said than was heard. That is a word, too.
        with contextlib.suppress(OSError):
            words.recv(WORD)
        changed()
