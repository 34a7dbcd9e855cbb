"""A process that pulls, to be measured or killed: ``python -m tests.registries.puller FILE``.

The JSON file has ``folder`` (for the cache and the tree of images), ``plain`` (hosts) and
``images`` (``name:tag`` to reference with digest), and may have ``unit`` (bytes). What was used is
printed as JSON at the end: seconds, peak memory in KiB, CPU seconds. A file ``begun`` in ``folder``
says that it has started.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BEGUN = "begun"


def main(file: Path) -> None:
    begun = time.monotonic()
    from buildchain.core.layout import Layout
    from buildchain.project import config
    from buildchain.project.model import PulledImage
    from buildchain.pulls import fetch
    from buildchain.store import partial

    job = json.loads(file.read_text())
    partial.UNIT = job.get("unit", partial.UNIT)
    folder = Path(job["folder"])
    (folder / BEGUN).touch()
    layout = Layout(ROOT, folder / "build", folder / "cache", "demo")
    settings = config.load(ROOT, {"PLAIN_HTTP_REGISTRIES": " ".join(job["plain"])})
    images = []
    for name, reference in job["images"].items():
        place, _, digest = reference.partition("@")
        images.append(PulledImage(name.rpartition(":")[0], place, digest))
    facts = fetch.fetch(layout, images, settings).facts
    for image in images:
        fact = facts[image.name]
        assert isinstance(fact, dict)
        fetch.lay_out(layout, image, fact)
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
