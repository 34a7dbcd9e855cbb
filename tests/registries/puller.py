"""A process that pulls, to be measured or killed: ``python -m tests.registries.puller FILE``.

The JSON file has ``store``, ``plain`` (hosts) and ``images`` (references), and may have ``unit``
(bytes). What was used is printed as JSON at the end: seconds, peak memory in KiB, CPU seconds.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path


def main(file: Path) -> None:
    begun = time.monotonic()
    from buildchain import reference
    from buildchain.store import partial
    from buildchain.store.blobs import Store
    from buildchain.store.pull import pull
    from buildchain.store.sources import Access, Sources
    from buildchain.store.tree import Wanted

    job = json.loads(file.read_text())
    partial.UNIT = job.get("unit", partial.UNIT)
    images = [Wanted(str(found), found) for found in map(reference.parse, job["images"])]
    with Sources(Access(tuple(job["plain"]), environ=os.environ)) as sources:
        pull(images, Store(Path(job["store"])), sources)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({
        "seconds": time.monotonic() - begun,
        "peak": _peak(),
        "cpu": usage.ru_utime + usage.ru_stime,
    }))  # fmt: skip


def _peak() -> int:
    """Not ``ru_maxrss``: that counts the parent's memory between fork and exec."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
