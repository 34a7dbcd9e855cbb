"""Scan all TCP ports of an address, and say what a stranger is told there: JSON on standard output.

Runs on a machine of the test bed, fed to ``python3 -``: port → ``plain``, the beginning of the
answer to a request without TLS; ``tls``, the status of one with, or why there is none.
"""

import contextlib
import json
import socket
import ssl
import sys

REQUEST = b"GET / HTTP/1.0\r\n\r\n"
PATIENCE = 3.0  # seconds
MOMENT = 0.5


def is_open(address: str, port: int) -> bool:
    """Tell whether something listens."""
    with socket.socket() as stream:
        stream.settimeout(PATIENCE)
        return stream.connect_ex((address, port)) == 0


def plain(address: str, port: int) -> str:
    """Ask without TLS."""
    with socket.create_connection((address, port), PATIENCE) as stream:
        said = b""
        with contextlib.suppress(OSError):
            stream.sendall(REQUEST)
            said = stream.recv(100)
        return said.decode("latin-1")


def tls(address: str, port: int) -> str:
    """Ask with TLS, without a certificate of our own."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((address, port), PATIENCE) as stream:
        try:
            with context.wrap_socket(stream) as secure:
                # Who asks for a certificate says so now, unasked, and may then not read any more.
                secure.settimeout(MOMENT)
                with contextlib.suppress(TimeoutError):
                    secure.recv(1)
                secure.settimeout(PATIENCE)
                secure.sendall(REQUEST)
                return secure.recv(100).decode("latin-1").split()[1]
        except ssl.SSLError as error:
            is_asked = "CERTIFICATE" in str(error.reason)
            return "certificate required" if is_asked else "no TLS"
        except (OSError, IndexError):
            return "no TLS"


def main(address: str, *wanted: str) -> None:
    """Scan these ports, or all, then ask."""
    ports = [port for port in map(int, wanted or range(1, 1 << 16)) if is_open(address, port)]
    told = {str(p): {"plain": plain(address, p), "tls": tls(address, p)} for p in ports}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
