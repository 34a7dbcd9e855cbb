"""Pulls that are killed at random moments and gone on with."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from buildchain.store import partial
from buildchain.store.blobs import Store
from tests.registries import puller

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Killed:
    """What some kills did.

    :param kills: that hit a pull under way.
    :param lost: bytes of the worst blob of any kill that had to come again.
    :param resumed: kills after which bytes of a blob were gone on with.
    """

    kills: int
    lost: int
    resumed: int


def kill_and_resume(job: dict, folder: Path, *, kills: int, seed: int, longest: float) -> Killed:
    """Kill pulls ``kills`` times, and let the last one finish.

    :param job: for :mod:`tests.registries.puller`, without its folder.
    :param longest: seconds of a pull after which a kill comes at the latest.
    """
    chance = random.Random(seed)
    file = folder / "job.json"
    store = Store(folder / "cache" / "store")
    file.write_text(json.dumps({**job, "folder": str(folder)}))
    argv = [sys.executable, "-m", "tests.registries.puller", str(file)]
    begun = folder / puller.BEGUN
    hit = lost = resumed = 0
    while hit < kills:
        begun.unlink(missing_ok=True)
        child = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL)
        # However busy the machine is: it is the pull that is killed, not the start of Python.
        while not begun.exists() and child.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.05, longest))
        child.kill()
        if child.wait() == 0:
            check(store)
            shutil.rmtree(store.root)
            continue
        hit += 1
        losses, kept = _losses(store)
        lost, resumed = max(lost, losses), resumed + (kept > 0)
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    check(store)
    return Killed(hit, lost, resumed)


def _losses(store: Store) -> tuple[int, int]:
    """Return the largest loss of any partial blob, and the bytes kept in all of them."""
    lost = kept = 0
    for path in store.partials.glob("*"):
        if path.suffix:
            continue
        # Room for the rest is claimed already; our blobs are random and do not end in zeros.
        size = len(path.read_bytes().rstrip(b"\0"))
        with partial.opened(store.partials, path.name) as part:
            kept += part.offset
            lost = max(lost, size - part.offset)
    return lost, kept


def check(store: Store) -> None:
    """Every blob has the digest of its name."""
    found = list((store.root / "sha256").glob("*/*"))
    assert found
    for path in found:
        with path.open("rb") as stream:
            assert hashlib.file_digest(stream, "sha256").hexdigest() == path.name
