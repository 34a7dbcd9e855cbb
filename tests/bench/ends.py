"""The two ends of a measurement, each in a namespace of its own: ``python ends.py WORD ...``.

``answer PORT`` sends back what comes by UDP, and takes every connection of TCP. ``echo ADDRESS PORT
COUNT`` prints the median of the seconds until a packet is back, ``connect ADDRESS PORT COUNT`` that
of the seconds until a connection is there. Each end keeps to a processor of its own: on one for
both, a packet takes a sixth of the time, and what the scheduler chooses would be measured.
"""

from __future__ import annotations

import os
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Callable

RESET = struct.pack("ii", 1, 0)  # of SO_LINGER: an end without a rest that keeps the port


def answer(port: int) -> None:
    """Serve until killed."""
    server = socket.create_server(("0.0.0.0", port), backlog=512)
    packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    packets.bind(("0.0.0.0", port))

    def accept() -> None:
        while True:
            server.accept()[0].close()

    threading.Thread(target=accept, daemon=True).start()
    print("ready", flush=True)
    while True:
        data, sender = packets.recvfrom(2048)
        packets.sendto(data, sender)


def echo(address: str, port: int) -> Callable[[], float]:
    """Return what sends one packet, and says how long it took."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.settimeout(5)
    one.connect((address, port))

    def once() -> float:
        began = time.perf_counter()
        one.send(b"x" * 64)
        one.recv(2048)
        return time.perf_counter() - began

    return once


def connect(address: str, port: int) -> Callable[[], float]:
    """Return what makes one connection, and says how long it took."""

    def once() -> float:
        with socket.socket() as one:
            one.settimeout(5)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            began = time.perf_counter()
            one.connect((address, port))
            return time.perf_counter() - began

    return once


def main(words: list[str]) -> None:
    """Be one of the ends."""
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, processors[:1] if words[0] == "answer" else processors[-1:])
    if words[0] == "answer":
        answer(int(words[1]))
    once = {"echo": echo, "connect": connect}[words[0]](words[1], int(words[2]))
    for _ in range(20):  # ways that the kernel has to learn first
        once()
    print(statistics.median(once() for _ in range(int(words[3]))))


if __name__ == "__main__":
    main(sys.argv[1:])
