"""The kernel's word that something of its network, or in a folder, has changed.

What is said is not read: any word is a reason to compare. So a route that somebody took away, or a
packet filter that somebody emptied, is back within a second.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

# linux/rtnetlink.h, linux/netlink.h, linux/netfilter/nfnetlink.h
RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV4_RULE = 0x1, 0x10, 0x40, 0x80
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 270, 1
NETLINK_NETFILTER, NFNLGRP_NFTABLES = 12, 7
WORD = 65536  # bytes, more than one message has
# sys/inotify.h
IN_CLOSE_WRITE, IN_MOVED_TO, IN_DELETE, IN_CLOEXEC = 0x8, 0x80, 0x200, 0o2000000


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


def watch(folder: Path, changed: Callable[[], None]) -> threading.Thread:
    """Call a function at every file that is written or goes, from a thread of its own.

    :raises OSError: the folder cannot be watched.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    words = libc.inotify_init1(IN_CLOEXEC)
    mask = IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE
    if words < 0 or libc.inotify_add_watch(words, os.fsencode(folder), mask) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))

    def follow() -> None:
        while True:
            os.read(words, WORD)
            changed()

    thread = threading.Thread(target=follow, name="sandboxes", daemon=True)
    thread.start()
    return thread
