"""Who may change the cluster now: a Lease, which its holder renews while it works.

Pure functions of Lease objects (``coordination.k8s.io/v1``). All holders are processes of the Salt
master's pod, so they have one clock; who looks at one that it does not understand waits for longer.
"""

from __future__ import annotations

import datetime
from typing import Any

SECONDS = 60  # without a sign of life, until another may take it
STEP = "metalk8s.scality.com/step"  # annotation: what is being done just now
FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


def holder(lease: dict[str, Any]) -> str:
    """Return who holds it, empty when nobody does."""
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def since(lease: dict[str, Any]) -> str:
    """Return when its holder took it."""
    return str((lease.get("spec") or {}).get("acquireTime") or "")[:19] + "Z"


def step(lease: dict[str, Any]) -> str:
    """Return what its holder does just now, empty between two steps."""
    return (lease["metadata"].get("annotations") or {}).get(STEP, "")


def sign(lease: dict[str, Any]) -> str:
    """Return the last sign of life."""
    return str((lease.get("spec") or {}).get("renewTime") or "")


def left(lease: dict[str, Any], now: datetime.datetime) -> float:
    """Return the seconds until another may take it, zero when it may at once."""
    if not holder(lease) or not sign(lease):
        return 0.0
    last = datetime.datetime.strptime(sign(lease), FORMAT).replace(tzinfo=datetime.UTC)
    return min(max(0.0, SECONDS - (now - last).total_seconds()), float(SECONDS))


def taken(lease: dict[str, Any], name: str, doing: str, now: datetime.datetime) -> dict[str, Any]:
    """Return it held by somebody, who goes on holding it or takes it over.

    :param doing: the step that begins, empty for none.
    """
    spec = lease.get("spec") or {}
    stamp = now.strftime(FORMAT)
    is_new = holder(lease) != name
    annotations = {**(lease["metadata"].get("annotations") or {}), STEP: doing}
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
        if key != STEP
    }
    return {
        **lease,
        "metadata": {**lease["metadata"], "annotations": annotations},
        "spec": {**(lease.get("spec") or {}), "holderIdentity": ""},
    }
