"""Whose turn it is to change the cluster: one run at a time, by a Lease that it renews.

A step says what it is and renews the lease while it works; between two steps nobody does, so a
caller has a minute for the next one. Who is gone for longer is taken for dead; so is a caller whose
name comes back, for two that are alive never have the same. All holders are processes of the Salt
master's pod, so they have one clock.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from salt.exceptions import CommandExecutionError

LEASE = ("coordination.k8s.io/v1", "Lease", "metalk8s-orchestration", "kube-system")
SECONDS = 60  # without a sign of life, until another may take it
RENEWAL = 10  # seconds between two signs of life
PAUSE = 1.0  # second between two looks at the lease
ORPHAN = 3600  # seconds that a step may go on whose caller is gone
STEP = "metalk8s.scality.com/step"  # annotation: what is being done just now
CALLER = "metalk8s.scality.com/caller"  # annotation: who began
FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"

# Calls a function of the module that speaks with the API server: ``get``, ``replace``.
Api = Callable[..., Any]


def _holder(node: str, action: str) -> str:
    return f"{action} {node}"


def _busy(lease: dict[str, Any]) -> CommandExecutionError:
    action, _, node = holder(lease).partition(" ")
    doing = step(lease)
    verb = {"deploy": "is being deployed"}.get(action, "is being removed")
    return CommandExecutionError(
        f"{node} {verb} since {since(lease)}"
        f"{f' ({doing})' if doing else ''}: one machine at a time, try again when that is over"
    )


def take(api: Api, node: str, action: str, caller: str = "") -> None:
    """Take the lease, and wait for one whose holder may be gone until that is sure.

    A run for the same machine may be one whose caller was ended while its step went on: that step
    is waited for. Another step after it shows that somebody carries on.

    :param caller: a name that nobody else alive has, for whoever keeps a lock under it: a run that
        it began before has no caller any more. Empty: that cannot be told.
    :raises CommandExecutionError: another one works.
    """
    me, until, first = _holder(node, action), time.monotonic() + ORPHAN, None
    while True:
        lease = _lease(api)
        first = first or lease
        name = holder(lease)
        is_own = caller and _caller(lease) == caller and not step(lease)
        if is_own or left(lease, _now()) <= 0:
            if api("replace", taken(lease, me, "", _now(), caller)):
                return
            continue
        is_alive = sign(lease) != sign(first)
        is_other_step = step(lease) and step(lease) != step(first)
        if (is_alive and name != me) or is_other_step or time.monotonic() > until:
            raise _busy(lease)
        time.sleep(PAUSE)


@contextlib.contextmanager
def held(api: Api, node: str, action: str, doing: str) -> Iterator[None]:
    """Hold the lease while something is done, and say what it is.

    :raises CommandExecutionError: another one has it.
    """
    me, renewal = _holder(node, action), float(RENEWAL)
    _refuse_two_steps(api, me)
    _renew(api, me, doing)
    over = threading.Event()

    def renew() -> None:
        while not over.wait(renewal):
            # It is tried again; and what is begun cannot be stopped.
            with contextlib.suppress(CommandExecutionError):
                _renew(api, me, doing)

    # What Salt gives a module is known to the thread that called it, and to copies of its context.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(renew,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        with contextlib.suppress(CommandExecutionError):
            _renew(api, me, "")


def _refuse_two_steps(api: Api, me: str) -> None:
    lease = _lease(api)
    if holder(lease) == me and _is_at_work(lease):
        raise _busy(lease)


def _renew(api: Api, me: str, doing: str) -> None:
    while True:
        lease = _lease(api)
        is_free = left(lease, _now()) <= 0
        if holder(lease) != me and not is_free:
            raise _busy(lease)
        if api("replace", taken(lease, me, doing, _now())):
            return


def release(api: Api, node: str) -> bool:
    """Let others work once a run for a machine is over.

    :return: false when a step of it still goes on.
    """
    while True:
        lease = _lease(api)
        if holder(lease).partition(" ")[2] != node:
            return True
        if _is_at_work(lease):
            return False
        if api("replace", released(lease)):
            return True


def _is_at_work(lease: dict[str, Any]) -> bool:
    return bool(step(lease)) and left(lease, _now()) > 0


def _lease(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api("get", *LEASE)
    return found


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


# -- what a Lease says -----------------------------------------------------------------------------
def holder(lease: dict[str, Any]) -> str:
    """Return who holds it, empty when nobody does."""
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def since(lease: dict[str, Any]) -> str:
    """Return when its holder took it."""
    return str((lease.get("spec") or {}).get("acquireTime") or "")[:19] + "Z"


def step(lease: dict[str, Any]) -> str:
    """Return what its holder does just now, empty between two steps."""
    return (lease["metadata"].get("annotations") or {}).get(STEP, "")


def _caller(lease: dict[str, Any]) -> str:
    return (lease["metadata"].get("annotations") or {}).get(CALLER, "")


def sign(lease: dict[str, Any]) -> str:
    """Return the last sign of life."""
    return str((lease.get("spec") or {}).get("renewTime") or "")


def left(lease: dict[str, Any], now: datetime.datetime) -> float:
    """Return the seconds until another may take it, zero when it may at once."""
    if not holder(lease) or not sign(lease):
        return 0.0
    last = datetime.datetime.strptime(sign(lease), FORMAT).replace(tzinfo=datetime.UTC)
    return min(max(0.0, SECONDS - (now - last).total_seconds()), float(SECONDS))


def taken(
    lease: dict[str, Any],
    name: str,
    doing: str,
    now: datetime.datetime,
    caller: str | None = None,
) -> dict[str, Any]:
    """Return it held by somebody, who goes on holding it or takes it over.

    :param doing: the step that begins, empty for none.
    :param caller: who begins; ``None`` for whoever began.
    """
    spec = lease.get("spec") or {}
    stamp = now.strftime(FORMAT)
    is_new = holder(lease) != name
    annotations = {**(lease["metadata"].get("annotations") or {}), STEP: doing}
    if caller is not None:
        annotations[CALLER] = caller
    return {
        **lease,
        "metadata": {**lease["metadata"], "annotations": annotations},
        "spec": {
            **spec,
            "holderIdentity": name,
            "leaseDurationSeconds": SECONDS,
            "acquireTime": stamp if is_new else spec.get("acquireTime", stamp),
            "renewTime": stamp,
            "leaseTransitions": spec.get("leaseTransitions", 0) + is_new,
        },
    }


def released(lease: dict[str, Any]) -> dict[str, Any]:
    """Return it free for anybody."""
    annotations = {
        key: value
        for key, value in (lease["metadata"].get("annotations") or {}).items()
        if key not in (STEP, CALLER)
    }
    return {
        **lease,
        "metadata": {**lease["metadata"], "annotations": annotations},
        "spec": {**(lease.get("spec") or {}), "holderIdentity": ""},
    }
