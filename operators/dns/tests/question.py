"""Questions of the DNS over UDP, and a server that has one answer for all of them."""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass

KINDS = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "TXT": 16, "AAAA": 28, "SRV": 33}
NAMES = {number: name for name, number in KINDS.items()}
CODES = {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED"}


@dataclass
class Answer:
    code: str
    answers: list
    authority: list
    additional: list

    @property
    def data(self):
        return sorted(f"{kind} {data}" for _, kind, data in self.answers)


def ask(port, name, kind="A", timeout=3.0):
    """Ask once; ``None`` without an answer."""
    query = struct.pack(">HHHHHH", 4711, 0x0100, 1, 0, 0, 0) + packed(name)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(timeout)
        asker.connect(("127.0.0.1", port))
        try:
            asker.send(query + struct.pack(">HH", KINDS[kind], 1))
            return parse(asker.recv(65535))
        except OSError:
            return None


def packed(name):
    labels = [label for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def parse(message):
    _, flags, questions, *counts = struct.unpack(">HHHHHH", message[:12])
    place = 12
    for _ in range(questions):
        _, place = unpacked(message, place)
        place += 4
    sections = []
    for count in counts:
        section = []
        for _ in range(count):
            owner, place = unpacked(message, place)
            kind, _, _, length = struct.unpack(">HHIH", message[place : place + 10])
            place += 10
            if kind in NAMES:
                section.append((owner, NAMES[kind], data(message, place, NAMES[kind], length)))
            place += length
        sections.append(section)
    return Answer(CODES.get(flags & 15, str(flags & 15)), *sections)


def data(message, place, kind, length):
    raw = message[place : place + length]
    if kind == "A":
        return socket.inet_ntop(socket.AF_INET, raw)
    if kind == "AAAA":
        return socket.inet_ntop(socket.AF_INET6, raw)
    if kind == "TXT":
        return raw[1:].decode()
    if kind == "SRV":
        numbers = struct.unpack(">HHH", raw[:6])
        return " ".join([*map(str, numbers), unpacked(message, place + 6)[0]])
    return unpacked(message, place)[0]


def unpacked(message, place):
    labels, after = [], None
    while message[place]:
        if message[place] & 0xC0 == 0xC0:
            after = after or place + 2
            place = struct.unpack(">H", message[place : place + 2])[0] & 0x3FFF
        else:
            labels.append(message[place + 1 : place + 1 + message[place]].decode())
            place += message[place] + 1
    return ".".join(labels) + ".", after or place + 1


class Upstream:
    """The resolver of a machine: it answers every A with one address."""

    def __init__(self, address, place=("127.0.0.1", 0)):
        self.asked = []
        self._address = address
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(place)
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            message, who = self._socket.recvfrom(65535)
            if message == b"end":
                return
            name, place = unpacked(message, 12)
            self.asked.append(name.lower())
            is_a = message[place : place + 2] == b"\0\1"
            header = message[:2] + struct.pack(">HHHHH", 0x8180, 1, is_a, 0, 0)
            body = message[12 : place + 4]
            if is_a:
                body += b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4)
                body += socket.inet_pton(socket.AF_INET, self._address)
            self._socket.sendto(header + body, who)

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", ("127.0.0.1", self.port))
        self._thread.join(10)
        self._socket.close()
