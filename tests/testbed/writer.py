"""Who counts up in a cluster while things happen to it, so that no acknowledged write is lost."""

from __future__ import annotations

import json
import threading
import time
from typing import Self

from tests.testbed.machine import KUBECTL, Machine

PAUSE = 0.2  # seconds between two numbers
READ = f"{KUBECTL} get configmap counter -o 'jsonpath={{.data.number}}'"


class Writer:
    """Counts up in the cluster, and knows how far it was told it has come.

    :ivar longest: seconds between two answers.
    """

    def __init__(self, machine: Machine, server: str) -> None:
        self.machine, self.server = machine, server
        self.acknowledged, self.longest = 0, 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self.machine.shell(f"{KUBECTL} create configmap counter --from-literal=number=0 || true")
        self._thread.start()
        self.machine.wait(f"{READ} | grep -v ^0$")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        number, last = 0, time.monotonic()
        while not self._stop.is_set():
            number += 1
            patch = json.dumps({"data": {"number": str(number)}})
            words = [*KUBECTL.split(), f"--server={self.server}", "--request-timeout=3s"]
            words += ["patch", "configmap", "counter", f"--patch={patch}"]
            if self.machine.call(*words).returncode == 0:
                self.acknowledged = number
                self.longest = max(self.longest, time.monotonic() - last)
                last = time.monotonic()
            self._stop.wait(PAUSE)

    def goes_on(self, seconds: float, answers: int = 10) -> bool:
        """Tell whether so many more numbers are acknowledged in some time."""
        reached, until = self.acknowledged, time.monotonic() + seconds
        while self.acknowledged < reached + answers and time.monotonic() < until:
            time.sleep(PAUSE)
        return self.acknowledged >= reached + answers

    def read(self) -> int:
        """Return what the cluster has."""
        return int(self.machine.shell(READ))
