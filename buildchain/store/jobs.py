"""What is to be fetched: many things from a few hosts at once, the largest first.

Every key is fetched once, whoever asks for it. What fails for the moment is tried again later or
elsewhere while others go on; what fails for good is told at the end, with everything else.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from buildchain.core import events
from buildchain.core.errors import BuildError
from buildchain.store.failure import TransferError
from buildchain.store.gate import MOST, Gate
from buildchain.store.registry import Endpoint

ATTEMPTS = 8  # of one object on one server, counted while nothing of it arrives
FIRST, LONGEST = 0.5, 30.0  # seconds to wait after the first and at most after any failure
THREADS = 16
TICK = 0.5  # seconds between two looks at how far it is
STEP = 1 << 20  # bytes that count as getting on: the failures before are forgotten
BUSY = 0.7  # processors; above it we wait for ourselves, and more at a time would only cost more
GRACE = 5.0  # seconds that transfers get to end in order when interrupted


@dataclass
class Job:
    """One thing to fetch.

    :param key: what it is; two jobs with the same key are one.
    :param action: fetches it from an endpoint; raises :class:`TransferError` when that fails.
    :param size: bytes, as far as known.
    :param offset: tells how many bytes are there.
    """

    key: str
    action: Callable[[Endpoint], None]
    endpoints: Sequence[Endpoint]
    size: int = 0
    attempts: int = ATTEMPTS
    offset: Callable[[], int] = lambda: 0
    # what has become of it
    failures: dict[Endpoint, int] = field(default_factory=dict)
    reasons: dict[Endpoint, str] = field(default_factory=dict)
    ready: float = 0.0
    error: BaseException | None = None

    @property
    def order(self) -> tuple[int, str]:
        return -self.size, self.key

    @property
    def endpoint(self) -> Endpoint | None:
        """Where to try next: the first of those that failed least."""
        left = [e for e in self.endpoints if e not in self.reasons]
        return min(left, key=lambda e: self.failures.get(e, 0), default=None)


class Jobs:
    """A queue that is worked off by threads.

    :param notice: called now and then by :meth:`run` with the bytes that are there.
    """

    def __init__(self, notice: Callable[[int], None] = lambda _bytes: None) -> None:
        self._notice = notice
        self._jobs: dict[str, Job] = {}
        self._pending: list[Job] = []
        self._active: list[Job] = []
        self._gates: dict[str, Gate] = {}
        self._change = threading.Condition()
        self._stopped = False
        self._fatal: BaseException | None = None
        self._begun = time.monotonic()
        self._used = time.process_time()

    def stopped(self) -> bool:
        """Tell whether what is under way should break off."""
        return self._stopped

    def add(self, job: Job) -> None:
        """Queue a job; a job may do so, too."""
        with self._change:
            if job.key in self._jobs:
                return
            self._jobs[job.key] = job
            self._pending.append(job)
            self._pending.sort(key=lambda job: job.order)
            self._change.notify_all()

    def run(self) -> Mapping[str, BaseException]:
        """Work the queue off; return what failed for good, by key."""
        hosts = {e.host for job in self._pending for e in job.endpoints}
        threads = [
            threading.Thread(target=self._work, daemon=True)
            for _ in range(min(THREADS, int(MOST) * len(hosts)))
        ]
        for thread in threads:
            thread.start()
        try:
            self._watch()
        except BaseException:
            self._stop(None)
            self._join(threads, GRACE)
            raise
        self._join(threads, GRACE if self._fatal else None)
        if self._fatal is not None:
            raise self._fatal
        return {key: job.error for key, job in self._jobs.items() if job.error is not None}

    def _join(self, threads: Iterable[threading.Thread], patience: float | None) -> None:
        end = None if patience is None else time.monotonic() + patience
        for thread in threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))

    def _watch(self) -> None:
        """Tell how far it is until nothing is left."""
        while True:
            with self._change:
                idle = not self._pending and not self._active
                if idle or self._stopped:
                    break
                self._change.wait(TICK)
                under_way = [job for job in self._jobs.values() if job.error is None]
            self._notice(sum(job.offset() for job in under_way))

    def _stop(self, error: BaseException | None) -> None:
        with self._change:
            self._stopped = True
            self._fatal = self._fatal or error
            self._change.notify_all()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            job, endpoint, begun = taken
            before = job.offset()
            try:
                job.action(endpoint)
            except TransferError as error:
                self._failed(job, endpoint, begun, error, job.offset() - before)
            except BuildError as error:
                self._ended(job, endpoint, error)
            except BaseException as error:  # raised again by run()
                self._ended(job, endpoint, error)
                self._stop(error)
            else:
                self._ended(job, endpoint, None)

    def _take(self) -> tuple[Job, Endpoint, float] | None:
        """Wait for a job that may begin; ``None`` when there is nothing left to do."""
        with self._change:
            while not self._stopped and (self._pending or self._active):
                delay = float("inf")
                now = time.monotonic()
                for job in self._pending:
                    endpoint = job.endpoint
                    assert endpoint is not None
                    gate = self._gate(endpoint)
                    wait = max(job.ready - now, gate.wait())
                    if wait <= 0:
                        self._pending.remove(job)
                        self._active.append(job)
                        return job, endpoint, gate.enter()
                    delay = min(delay, wait)
                self._change.wait(None if delay == float("inf") else delay)
            return None

    def _gate(self, endpoint: Endpoint) -> Gate:
        return self._gates.setdefault(endpoint.host, Gate())

    def _ended(self, job: Job, endpoint: Endpoint, error: BaseException | None) -> None:
        with self._change:
            job.error = error
            self._active.remove(job)
            gate = self._gate(endpoint)
            gate.leave()
            if error is None and not self._is_busy():
                gate.went_well()
            self._change.notify_all()

    def _is_busy(self) -> bool:
        used = time.process_time() - self._used
        return used > BUSY * (time.monotonic() - self._begun)

    def _failed(
        self, job: Job, endpoint: Endpoint, begun: float, error: TransferError, progress: int
    ) -> None:
        """Put a job back for another try, or give it up."""
        events.transcript(f"{job.key} from {endpoint.host}: {error.reason}")
        with self._change:
            self._active.remove(job)
            gate = self._gate(endpoint)
            gate.leave()
            if error.crowded:
                gate.crowded(begun, error.after)
            failures = 1 if progress >= STEP else job.failures.get(endpoint, 0) + 1
            job.failures[endpoint] = failures
            if not error.passing or failures >= job.attempts:
                times = f" ({failures} times)" if failures > 1 else ""
                job.reasons[endpoint] = f"{error.reason}{times}"
            following = job.endpoint
            if following is None:
                reasons = [job.reasons[endpoint] for endpoint in dict.fromkeys(job.endpoints)]
                job.error = TransferError("; ".join(reasons), passing=False)
            else:
                # Nobody waits before going elsewhere for the first time.
                if failed := job.failures.get(following, 0):
                    after = error.after if following == endpoint else 0.0
                    job.ready = time.monotonic() + pause(failed, after)
                self._pending.append(job)
                self._pending.sort(key=lambda job: job.order)
            self._change.notify_all()


def pause(failures: int, after: float = 0.0) -> float:
    """Return seconds to wait after so many failures in a row.

    Half of it is chance: clients that failed together do not come back together.
    """
    longest = min(LONGEST, FIRST * 2.0 ** (failures - 1))
    return max(after, longest * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
