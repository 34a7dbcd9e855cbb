"""A package of two programs, and where its containers' folders are."""

from pathlib import Path

from buildchain.packages.builder import Builder
from buildchain.project.model import Package, Source

EPOCH = 1700000000
BUILDER = Builder("builder:1", "docker", EPOCH, Path("/build/root"))
DIGEST = "ab" * 32
DEMO = Package(
    "demo", "1.0", "3", ("demo", "demo-client"), ("demo", "demo-client"), ("demo",),
    (Source("demo_1.0.2.tar.gz", DIGEST, "demo", "1"),),
)  # fmt: skip


def mounts(container):
    """Return where a container's folders are on the host, and which it may write."""
    rows = [bind.rsplit(":", 2) for bind in container["HostConfig"]["Binds"]]
    return {inside: Path(host) for host, inside, _ in rows}, {i for _, i, m in rows if m == "rw"}
