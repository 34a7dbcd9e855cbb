"""Servers of HTTP on loopback, each of which tells its name. Fast enough to be under load."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter


class Behind:
    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._servers = {}
        self.seen = []  # heads of requests
        self.answered = Counter()  # how many each one did

    def start(self, name, address="127.0.0.1", delay=0.0):
        """Start a server; return its address and port."""

        async def begin():
            server = await asyncio.start_server(
                lambda reader, writer: self._serve(name, delay, reader, writer), address, 0
            )
            return server, server.sockets[0].getsockname()[:2]

        server, where = asyncio.run_coroutine_threadsafe(begin(), self._loop).result(10)
        self._servers[name] = server
        return where

    def stop(self, name):
        """Take no further connections; those that there are go on."""
        self._loop.call_soon_threadsafe(self._servers.pop(name).close)

    async def _serve(self, name, delay, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                if len(self.seen) < 1000:
                    self.seen.append(head)
                length = next(
                    (
                        int(line.partition(":")[2])
                        for line in head.splitlines()
                        if line.lower().startswith("content-length:")
                    ),
                    0,
                )
                await reader.readexactly(length)
                if delay:
                    await asyncio.sleep(delay)
                body = name.encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
                self.answered[name] += 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # a client that goes, or the end of the test
        finally:
            writer.close()

    def close(self):
        async def end():
            for server in self._servers.values():
                server.close()
            mine = asyncio.current_task()
            others = [task for task in asyncio.all_tasks() if task is not mine]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
