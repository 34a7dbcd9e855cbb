"""Send a UDP datagram in a frame of one's own making, whatever the kernel thinks of its addresses.

Runs on a machine of the test bed, fed to ``python3 -``: interface, hardware address of who gets it,
source, destination, port.
"""

import socket
import struct
import sys

IPV4 = 0x0800
PAYLOAD = b"attack"


def checksum(header: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def datagram(source: str, destination: str, port: int) -> bytes:
    """Return the packet; UDP needs no checksum of its own (RFC 768)."""
    udp = struct.pack("!4H", port, port, 8 + len(PAYLOAD), 0) + PAYLOAD
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    header = struct.pack("!2B3H2BH", 0x45, 0, 20 + len(udp), 1, 0, 64, socket.IPPROTO_UDP, 0) + ends
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + udp


def main(interface: str, hardware: str, source: str, destination: str, port: str) -> None:
    """Send it once."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as stream:
        stream.bind((interface, IPV4))
        own: bytes = stream.getsockname()[4]
        there = bytes.fromhex(hardware.replace(":", ""))
        packet = datagram(source, destination, int(port))
        stream.send(there + own + struct.pack("!H", IPV4) + packet)


main(*sys.argv[1:])
