"""Whose turn it is to change the cluster: one run at a time, by a lease that it renews.

A step says what it is and renews the lease while it works; between two steps nobody does, so a
caller has a minute for the next one. Who is gone for longer is taken for dead.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import threading
import time
from collections.abc import Iterator
from typing import Any

from salt.exceptions import CommandExecutionError

LEASE = ("coordination.k8s.io/v1", "Lease", "metalk8s-orchestration", "kube-system")
RENEWAL = 10  # seconds between two signs of life
PAUSE = 1.0  # second between two looks at the lease
ORPHAN = 3600  # seconds that a step may go on whose caller is gone


def _holder(node: str, action: str) -> str:
    return f"{action} {node}"


def _busy(lease: dict[str, Any]) -> CommandExecutionError:
    action, _, node = __utils__["metalk8s_lease.holder"](lease).partition(" ")
    doing = __utils__["metalk8s_lease.step"](lease)
    verb = {"deploy": "is being deployed"}.get(action, "is being removed")
    return CommandExecutionError(
        f"{node} {verb} since {__utils__['metalk8s_lease.since'](lease)}"
        f"{f' ({doing})' if doing else ''}: one machine at a time, try again when that is over"
    )


def take(node: str, action: str) -> None:
    """Take the lease, and wait for one whose holder may be gone until that is sure.

    A run for the same machine may be one whose caller was ended while its step went on: that step
    is waited for. Another step after it shows that somebody carries on.

    :raises CommandExecutionError: another one works.
    """
    me, until, first = _holder(node, action), time.monotonic() + ORPHAN, None
    while True:
        lease = _lease()
        first = first or lease
        name = __utils__["metalk8s_lease.holder"](lease)
        if __utils__["metalk8s_lease.left"](lease, _now()) <= 0:
            if _api("replace", __utils__["metalk8s_lease.taken"](lease, me, "", _now())):
                return
            continue
        sign, doing = (__utils__[f"metalk8s_lease.{part}"](lease) for part in ("sign", "step"))
        is_alive = sign != __utils__["metalk8s_lease.sign"](first)
        is_other_step = doing and doing != __utils__["metalk8s_lease.step"](first)
        if (is_alive and name != me) or is_other_step or time.monotonic() > until:
            raise _busy(lease)
        time.sleep(PAUSE)


@contextlib.contextmanager
def held(node: str, action: str, doing: str) -> Iterator[None]:
    """Hold the lease while something is done, and say what it is.

    :raises CommandExecutionError: another one has it.
    """
    me, renewal = _holder(node, action), float(RENEWAL)
    _refuse_two_steps(me)
    _renew(me, doing)
    over = threading.Event()

    def renew() -> None:
        while not over.wait(renewal):
            # It is tried again; and what is begun cannot be stopped.
            with contextlib.suppress(CommandExecutionError):
                _renew(me, doing)

    # What Salt gives a module is known to the thread that called it, and to copies of its context.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(renew,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        with contextlib.suppress(CommandExecutionError):
            _renew(me, "")


def _refuse_two_steps(me: str) -> None:
    lease = _lease()
    left = __utils__["metalk8s_lease.left"](lease, _now())
    is_mine = __utils__["metalk8s_lease.holder"](lease) == me
    if is_mine and __utils__["metalk8s_lease.step"](lease) and left > 0:
        raise _busy(lease)


def _renew(me: str, doing: str) -> None:
    while True:
        lease = _lease()
        is_free = __utils__["metalk8s_lease.left"](lease, _now()) <= 0
        if __utils__["metalk8s_lease.holder"](lease) != me and not is_free:
            raise _busy(lease)
        if _api("replace", __utils__["metalk8s_lease.taken"](lease, me, doing, _now())):
            return


def release(node: str) -> bool:
    """Let others work once a run for a machine is over.

    :return: false when a step of it still goes on.
    """
    while True:
        lease = _lease()
        if __utils__["metalk8s_lease.holder"](lease).partition(" ")[2] != node:
            return True
        left = __utils__["metalk8s_lease.left"](lease, _now())
        if __utils__["metalk8s_lease.step"](lease) and left > 0:
            return False
        if _api("replace", __utils__["metalk8s_lease.released"](lease)):
            return True


def _lease() -> dict[str, Any]:
    found: dict[str, Any] = __utils__["metalk8s_apiserver.there"](*LEASE)
    return found


def _api(function: str, *arguments: Any) -> Any:
    return __utils__["metalk8s_apiserver.call"](function, *arguments)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
