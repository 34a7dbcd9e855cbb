"""``probe.py ADDRESS SIZE``: send one ICMP packet that must not be cut; say what comes of it.

Prints ``answer``, ``unreachable``, ``too large`` or ``nothing``. SIZE is that of the whole packet.
"""

import contextlib
import socket
import struct
import sys

IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
ECHO, UNREACHABLE = 8, 3
HEADERS = 28  # bytes: IPv4, ICMP
NUMBER = 77


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def main(address, size):
    words = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    words.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    words.settimeout(1)
    data = b"\0" * (size - HEADERS + size % 2)
    packet = struct.pack("!BBHHH", ECHO, 0, 0, NUMBER, 1) + data
    packet = packet[:2] + struct.pack("!H", checksum(packet)) + packet[4:]
    try:
        words.sendto(packet[: size - HEADERS + 8], (address, 0))
    except OSError as error:
        return "too large" if error.errno == 90 else "unreachable"
    with contextlib.suppress(TimeoutError):
        while True:
            found, _ = words.recvfrom(65536)
            kind = found[20]
            if kind == UNREACHABLE:
                return "unreachable"
            if kind == 0 and found[24:26] == struct.pack("!H", NUMBER):
                return "answer" if len(found) == size else "another answer"
    return "nothing"


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2])))
