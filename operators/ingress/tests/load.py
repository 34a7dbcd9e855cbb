"""Clients that ask over TLS, one request after the other on a connection, as browsers do.

A connection that is closed where no request is under way is made anew; everything else that is not
an answer of 200 is a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import subprocess
import threading


class Load:
    def __init__(self, host, port, clients):
        self.answered, self.failures = 0, []
        self._host, self._port, self._clients = host, port, clients
        self._stop = threading.Event()
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    def end(self):
        self._stop.set()
        self._thread.join(60)

    async def _run(self):
        await asyncio.gather(*(self._client() for _ in range(self._clients)))

    async def _client(self):
        while not self._stop.is_set():
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1",
                    self._port,
                    ssl=self._context,
                    server_hostname=self._host,
                    ssl_shutdown_timeout=5,
                )
            except (OSError, ssl.SSLError) as error:
                self.failures.append(f"connect: {error!r}")
                await asyncio.sleep(0.05)
                continue
            try:
                await self._use(reader, writer)
            except (OSError, asyncio.IncompleteReadError, ssl.SSLError) as error:
                self.failures.append(repr(error))
            finally:
                writer.close()
                # The loop ends with its last client: what TLS had still to say would stay open.
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def _use(self, reader, writer):
        """Ask until the server says that it is enough."""
        while not self._stop.is_set() and not reader.at_eof():
            writer.write(b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % self._host.encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.partition("content-length:")[2].partition("\r")[0])
            await reader.readexactly(length)
            if head.startswith("http/1.1 200"):
                self.answered += 1
            else:
                self.failures.append(head.splitlines()[0])
            if "connection: close" in head:
                return


class H2load:
    """``h2load``, four connections with so many requests a second together.

    It begins no other connection after a GOAWAY, and counts what it did not send then as failed:
    so each connection has to last. With ``--duration`` it would not count them.
    """

    CLIENTS = 4

    def __init__(self, host, port, rate, seconds, *words):
        self.requests = rate * seconds
        self._process = subprocess.Popen(
            [
                *("h2load", f"--clients={self.CLIENTS}", f"--requests={self.requests}"),
                *(f"--rps={rate // self.CLIENTS}", f"--connect-to=127.0.0.1:{port}", *words),
                f"https://{host}:{port}/",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def is_running(self):
        return self._process.poll() is None

    def end(self, timeout=60):
        """Return the protocol, how many were answered by 2xx, and how many failed in what way."""
        text = self._process.communicate(timeout=timeout)[0]
        protocol = re.search(r"(?m)^Application protocol: (.+)$", text)
        fine = re.search(r"(?m)^status codes: (\d+) 2xx", text)
        failed = re.search(r"(\d+) failed, (\d+) errored, (\d+) timeout", text)
        assert (bool(protocol), bool(fine), bool(failed)) == (True, True, True), text
        return protocol[1], int(fine[1]), tuple(map(int, failed.groups()))

    def close(self):
        if self.is_running():
            self._process.kill()
            self._process.wait()
