"""What the static registry serves beside docker-registry: ``python -m tests.bench.serve``.

Both have the same image, on loopback, plain and over TLS; ours in nginx with the configuration of
the ISO's nginx. ``wrk`` asks them in turn, round by round; what is told is the median of the
rounds' ratios, because seconds on a shared machine say little. Lookups are timed in two more nginx,
of 20 and of 2 000 images, at 20 addresses spread over all.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from static_container_registry import Document, Options, Repository, Tag, read_tree, render

from tests.registries import image_set, local

ROOT = Path(__file__).resolve().parents[2]
BLOB = 100_000_000  # bytes
SEND = "sndbuf=512k"  # as the product listens
PEER, OURS = "docker-registry", "ours"
FEW, MANY = 20, 2000
ASKED = 20  # addresses of lookups
# name, which figure, ours by docker-registry's, at least
GOALS = (
    ("manifests, requests/s", "manifest", "rate", 20.0),
    ("blob of 100 MB, bytes/s", "blob", "rate", 1.0),
    ("blob of 100 MB, bytes per server CPU second", "blob", "efficiency", 1.8),
)
LOOKUP = 1.2  # times the server's CPU time for a lookup with few images, at most


@dataclass(frozen=True)
class Server:
    """A server that runs: where, and the processes that are it."""

    plain: str
    secure: str
    processes: Callable[[], list[int]]

    def cpu(self) -> float:
        """Return the CPU seconds its processes took so far."""
        return sum(map(_cpu, self.processes()))

    def memory(self) -> float:
        """Return MiB of its largest process."""
        lines = [Path(f"/proc/{pid}/status").read_text() for pid in self.processes()]
        found = [re.search(r"VmRSS:\s+(\d+)", text) for text in lines]
        return max(int(one.group(1)) for one in found if one) / 1024


@dataclass(frozen=True)
class Sample:
    """What one run of ``wrk`` told.

    :param rate: requests a second, bytes a second for blobs.
    :param efficiency: requests (bytes) for a CPU second of the server.
    """

    rate: float
    efficiency: float


def _cpu(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def load(server: Server, url: str, *options: str, size: int = 1) -> Sample:
    """Let ``wrk`` ask, and return how it went; ``size`` is what one answer counts."""
    before = server.cpu()
    argv = ["wrk", "-t1", "--timeout", "20s", *options, url]
    told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    used = max(server.cpu() - before, 0.01)
    assert "Non-2xx" not in told, told
    assert "Socket errors" not in told, told
    found = re.search(r"(\d+) requests in ([\d.]+)s, ([\d.]+)([KMG])B read", told)
    assert found, told
    count, seconds = int(found[1]), float(found[2])
    if size > 1:  # what was under way at the end was sent, too
        unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[found[4]]
        count, size = int(float(found[3]) * unit), 1
    return Sample(count * size / seconds, count * size / used)


# -- servers --------------------------------------------------------------------------------------
@contextlib.contextmanager
def nginx(folder: Path, text: str, keys: tuple[Path, Path]) -> Iterator[Server]:
    """Run nginx as the ISO's image does, with the text in its server block."""
    folder.mkdir()
    plain, secure = (f"127.0.0.1:{local.free_port()}" for _ in range(2))
    shipped = (ROOT / "images/nginx/nginx.conf").read_text()
    main = shipped.replace("/tmp/", f"{folder}/").replace("/etc/nginx/conf.d/", f"{folder}/")
    if os.geteuid() == 0:
        main = f"user root;\n{main}"
    (folder / "nginx").write_text(main)
    (folder / "site.conf").write_text(
        f"server {{ listen {plain} reuseport {SEND}; listen {secure} ssl reuseport {SEND}; "
        f"ssl_certificate {keys[0]}; ssl_certificate_key {keys[1]}; "
        f"keepalive_requests 1000000;\n{text} }}\n"
    )
    child = subprocess.Popen(
        ["nginx", "-e", "stderr", "-c", folder / "nginx", "-g", "daemon off;"],
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"},
    )
    try:
        _wait(lambda: child.poll() is None and bool(_children(child.pid)))
        yield Server(plain, secure, lambda: _children(child.pid))
    finally:
        child.terminate()
        child.wait()


def _wait(ready: Callable[[], bool]) -> None:
    for _ in range(200):
        if ready():
            time.sleep(0.1)
            return
        time.sleep(0.05)
    raise AssertionError("nginx does not start")


@contextlib.contextmanager
def docker_registry(folder: Path, keys: tuple[Path, Path]) -> Iterator[Server]:
    """Run docker-registry twice on one folder: plain, and with TLS."""
    with local.serving(folder) as plain, local.serving(folder, tls=keys) as secure:
        mine = [
            pid for pid in _children(os.getpid())
            if Path(f"/proc/{pid}/comm").read_text().startswith("docker-registr")
        ]  # fmt: skip
        assert len(mine) == 2
        yield Server(plain, secure, lambda: mine)


def certificate(folder: Path) -> tuple[Path, Path]:
    made = folder / "server.crt", folder / "server.key"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", "/CN=127.0.0.1", "-out", made[0], "-keyout", made[1]]  # fmt: skip
    subprocess.run(argv, check=True, capture_output=True)
    return made


# -- what is served -------------------------------------------------------------------------------
def big(folder: Path, address: str) -> tuple[str, str]:
    """Put one image into a tree and a registry; return the manifest's and the layer's paths."""
    data, diff_id = image_set.layer(1, BLOB)
    config = image_set.configuration("big", [diff_id])
    document = image_set.manifest(config, [(image_set.digest(data), len(data))])
    place = folder / "big" / "1.0"
    place.mkdir(parents=True)
    (place / "manifest.json").write_bytes(document)
    with contextlib.closing(local.Pusher(address)) as pusher:
        for content in (config, data):
            digest = image_set.digest(content)
            pusher.blob("big", digest, content)
            (place / digest.removeprefix("sha256:")).write_bytes(content)
        pusher.manifest("big", "1.0", document)
    return "/v2/big/manifests/1.0", f"/v2/big/blobs/{image_set.digest(data)}"


def repositories(folder: Path, number: int) -> tuple[list[Repository], list[str]]:
    """Return images in a tree (only what is asked for is written), and what to ask for."""
    made, paths = [], []
    for one in range(number):
        name = f"team-{one % 7}/application-{one:04}"
        digits = image_set.digest(name.encode()).removeprefix("sha256:")
        document = Document(digits, image_set.OCI[0], f"{name}/1.0/manifest.json")
        made.append(Repository(name, (Tag("1.0", digits),), (document,)))
        if one % (number // ASKED) == 0:
            path = folder / document.path
            path.parent.mkdir(parents=True)
            path.write_text(name * 30)
            paths.append(f"/v2/{name}/manifests/1.0")
    return made, paths


def asking(paths: list[str]) -> str:
    """Return a script for ``wrk`` that asks for one path after the other."""
    listed = ", ".join(f'"{path}"' for path in paths)
    return (
        f"local paths = {{{listed}}}\nlocal at = 0\n"
        'function request() at = at % #paths + 1 return wrk.format("GET", paths[at]) end\n'
    )


# -- measuring ------------------------------------------------------------------------------------
def rounds(
    count: int, runs: dict[tuple[str, str], Callable[[], Sample]]
) -> dict[tuple[str, str], list[Sample]]:
    """Run everything in turn."""
    found: dict[tuple[str, str], list[Sample]] = {key: [] for key in runs}
    for number in range(count):
        for key, run in runs.items():
            found[key].append(run())
        print(f"  round {number + 1} of {count}", flush=True)
    return found


def ratio(ours: list[Sample], theirs: list[Sample], figure: str) -> float:
    """Return the median of the rounds' ratios."""
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(getattr(a, figure) / getattr(b, figure) for a, b in pairs)


def requests(scratch: Path, keys: tuple[Path, Path], count: int) -> bool:
    """Compare manifests and a blob, plain and over TLS."""
    with docker_registry(scratch / "registry", keys) as peer:
        manifest, blob = big(scratch / "images", peer.plain)
        text = render(read_tree(scratch / "images"), Options(str(scratch / "images")))
        with nginx(scratch / "nginx", text, keys) as ours:
            runs: dict[tuple[str, str], Callable[[], Sample]] = {}
            for what, path, options, size in (
                ("manifest", manifest, ("-c8", "-d2s", "-H", f"Accept: {image_set.MANIFEST}"), 1),
                ("blob", blob, ("-c4", "-d3s"), BLOB),
            ):
                for how in ("", " TLS"):
                    for name, server in ((PEER, peer), (OURS, ours)):
                        place = f"https://{server.secure}" if how else f"http://{server.plain}"
                        runs[what + how, name] = (
                            lambda s=server, u=place + path, o=options, n=size: load(
                                s, u, *o, size=n
                            )
                        )
            found = rounds(count, runs)
            print(
                f"\nmemory of a process: {PEER} {peer.memory():.0f} MiB, ours {ours.memory():.0f}"
            )
    for (what, name), samples in found.items():
        scale, unit = (1e6, "MB") if what.startswith("blob") else (1, "req")
        rate, efficiency = (
            statistics.median(getattr(one, figure) for one in samples) / scale
            for figure in ("rate", "efficiency")
        )
        rates, efficiencies = (
            ratio(samples, found[what, PEER], figure) for figure in ("rate", "efficiency")
        )
        print(
            f"{what:13} {name:16} {rate:9.0f} {unit}/s {efficiency:9.0f} {unit}/CPU s   "
            f"x {rates:.2f}, x {efficiencies:.2f}"
        )
    met = []
    for name, what, figure, least in GOALS:
        value = ratio(found[what, OURS], found[what, PEER], figure)
        met.append(value >= least)
        print(f"{'met   ' if met[-1] else 'MISSED'} {name}: x {value:.2f} (at least {least:g})")
    return all(met)


def lookups(scratch: Path, keys: tuple[Path, Path], count: int) -> bool:
    """Compare few and many images."""
    with contextlib.ExitStack() as stack:
        runs: dict[tuple[str, str], Callable[[], Sample]] = {}
        servers = {}
        for number in (FEW, MANY):
            tree = scratch / f"images-{number}"
            images, paths = repositories(tree, number)
            script = scratch / f"{number}.lua"
            script.write_text(asking(paths))
            text = render(images, Options(str(tree)))
            server = stack.enter_context(nginx(scratch / f"nginx-{number}", text, keys))
            servers[number] = server
            runs["lookup", str(number)] = lambda s=server, f=script: load(
                s, f"http://{s.plain}", "-c8", "-d2s", "-s", str(f)
            )
        found = rounds(count, runs)
        for number, server in servers.items():
            samples = found["lookup", str(number)]
            micro = 1e6 / statistics.median(one.efficiency for one in samples)
            print(
                f"{number:5} images {statistics.median(one.rate for one in samples):9.0f} req/s "
                f"{micro:6.1f} us CPU a request, {server.memory():.1f} MiB a process"
            )
    # The clock on the wall tells of whoever else uses the machine, more than the difference.
    few, many = (found["lookup", str(number)] for number in (FEW, MANY))
    print(f"on the wall x {ratio(few, many, 'rate'):.2f}")
    value = ratio(few, many, "efficiency")
    is_met = value <= LOOKUP
    print(f"{'met   ' if is_met else 'MISSED'} lookup, {MANY} by {FEW} images: x {value:.2f} "
          f"(at most {LOOKUP:g})")  # fmt: skip
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the static registry.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lookup-rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        scratch.chmod(0o755)
        keys = certificate(scratch)
        met = [requests(scratch, keys, options.rounds)]
        print()
        met.append(lookups(scratch, keys, options.lookup_rounds))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
