"""What a pull over TLS costs beside other tools over TLS: ``python -m tests.bench.pull``.

All in one run, on one certificate that all of them believe by ``SSL_CERT_FILE``. Needs root (a
network namespace of its own: nobody else's traffic is counted, and one variant has its link limited
by ``tc``), ``docker-registry``, ``skopeo``, ``hardlink``, ``curl``, ``openssl``, ``ip``.
Variants run in turn, round by round; what is told is the median of the rounds' ratios, because
seconds on a shared machine say little. Each run waits for a quiet machine, and is repeated when
others took more than a part of a core; the least disturbed counts (column "other": their cores).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.verdict import at_most
from tests.registries import local

ROOT = Path(__file__).resolve().parents[2]
INSIDE = "METALK8S_BENCH_INSIDE"
MEGA = 1e6
# name, what is compared, at most
GOALS = (
    ("fill / skopeo dir + hardlink", ("fill", "skopeo-dir"), 0.25),
    ("refill / skopeo dir + hardlink", ("refill", "skopeo-dir"), 0.03),
)
LIMITED_GOAL = ("fill / curl, 1 Gbit/s", ("fill", "curl"), 1.05)
PEAK = 64 * 1024  # KiB
DISTURBED = 0.3  # cores that others take
OVERHEAD = 1.01  # headers and manifests on top of the blobs


@dataclass(frozen=True)
class Sample:
    """One run: wall and CPU seconds, bytes over the link, others' cores, our peak memory in KiB."""

    wall: float
    cpu: float
    received: int
    other: float
    peak: int = 0


class Bench:
    """A registry in the namespace, and the commands that pull from it."""

    def __init__(self, folder: Path, address: str, images: dict[str, str], patience: float) -> None:
        self.patience = patience
        self.address = address
        self.images = images
        self.folder = folder
        self.blobs = self._blobs()
        self.unique = sum(size for size, _ in self.blobs.values())
        self.target = folder / "target"
        job = {
            "folder": str(self.target),
            "plain": [],
            "images": {name: f"{address}/{name}@{digest}" for name, digest in images.items()},
        }
        (folder / "job.json").write_text(json.dumps(job))
        lines = [
            f"url=https://{address}/v2/{name}/blobs/{digest}\noutput={self.target / digest[7:]}\n"
            for digest, (_, name) in self.blobs.items()
        ]
        (folder / "curl.conf").write_text("".join(lines))

    def _blobs(self) -> dict[str, tuple[int, str]]:
        """Return digest to size and a repository, the largest first, as a peer would like it."""
        found: dict[str, tuple[int, str]] = {}
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        for image in self.images:
            name, _, tag = image.rpartition(":")
            url = f"https://{self.address}/v2/{name}/manifests/{tag}"
            request = urllib.request.Request(url, headers={"Accept": kind})
            with urllib.request.urlopen(request) as answer:
                document = json.load(answer)
            for blob in (document["config"], *document["layers"]):
                found[blob["digest"]] = (blob["size"], name)
        return dict(sorted(found.items(), key=lambda item: -item[1][0]))

    def script(self, variant: str) -> str:
        """Return what a variant does, for a shell."""
        one = "skopeo --override-os linux --insecure-policy copy -q"
        names = " ".join(self.images)
        if variant == "skopeo-dir":
            return (
                f"for i in {names}; do n=${{i%:*}} t=${{i##*:}}; mkdir -p {self.target}/$n; {one} "
                f"--format v2s2 docker://{self.address}/$i dir:{self.target}/$n/$t || exit 1; done;"
                f" hardlink -c -q {self.target}"
            )
        if variant == "skopeo-shared":
            return (
                f"mkdir {self.target}/blobs; printf '%s\\n' {names} | xargs -P4 -I@ sh -c "
                f"'d={self.target}/$(echo @ | tr /: --); {one} --dest-shared-blob-dir "
                f"{self.target}/blobs docker://{self.address}/@ oci:$d:t'"
            )
        if variant == "curl":
            config = self.folder / "curl.conf"
            return f"curl --cacert $SSL_CERT_FILE -sSfZ --parallel-max 4 -K {config} 2>/dev/null"
        return f"{sys.executable} -m tests.registries.puller {self.folder / 'job.json'}"

    def run(self, variant: str) -> Sample:
        """Return the least disturbed of some runs."""
        samples: list[Sample] = []
        end = time.monotonic() + self.patience
        while not samples or (samples[-1].other > DISTURBED and time.monotonic() < end):
            while time.monotonic() < end and busy(0.5) > DISTURBED:
                pass
            samples.append(self._run(variant))
        return min(samples, key=lambda sample: sample.other)

    def _run(self, variant: str) -> Sample:
        """Run a variant on an empty folder (a refill on what is there)."""
        if variant != "refill":
            shutil.rmtree(self.target, ignore_errors=True)
            self.target.mkdir()
        os.sync()
        self._warm()
        before, begun = received(), time.monotonic()
        all_before, registry_before = cpu(), process_cpu("docker-registry")
        with (self.folder / "output").open("w+b") as output:
            argv = ["sh", "-c", self.script(variant)]
            child = subprocess.Popen(argv, cwd=ROOT, stdout=output)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            wall = time.monotonic() - begun
            assert child.returncode == 0, f"{variant} failed: {child.returncode}"
            output.seek(0)
            told = output.read()
        ours = usage.ru_utime + usage.ru_stime
        served = process_cpu("docker-registry") - registry_before
        other = max(0.0, cpu() - all_before - ours - served) / wall
        peak = json.loads(told)["peak"] if told.startswith(b"{") else 0
        return Sample(wall, ours, received() - before, other, peak)

    def _warm(self) -> None:
        """Fill as much of the page cache as a run may, and empty it again.

        Memory that a virtual machine gave back to its host is slow to get again, two seconds for
        a gigabyte; without this chance decides who pays.
        """
        piece = bytes(1 << 20)
        path = self.folder / "warm"
        with path.open("wb", buffering=0) as stream:
            for _ in range(int(self.unique * 1.6) >> 20):
                stream.write(piece)
        path.unlink()

    def rounds(self, groups: list[tuple[str, ...]], count: int) -> dict[str, list[Sample]]:
        """Run variants in turn."""
        found: dict[str, list[Sample]] = {variant: [] for group in groups for variant in group}
        for number in range(count):
            # Nobody comes after the same neighbour each time; a refill follows a fill.
            turn = number % len(groups)
            for variant in itertools.chain(*groups[turn:], *groups[:turn]):
                found[variant].append(self.run(variant))
                sample = found[variant][-1]
                told = f"{sample.wall:7.2f} s, other {sample.other:.2f}"
                print(f"  round {number + 1} {variant:14} {told}", flush=True)
        return found


def cpu() -> float:
    """Return the seconds that all cores together were busy."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()
    user, nice, system, _, _, irq, softirq = (int(word) for word in words[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def process_cpu(name: str) -> float:
    """Return the CPU seconds of our registry, the child of that name."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            head, _, rest = path.read_text().rpartition(")")
            words = rest.split()
            if head.partition("(")[2] == name[:15] and int(words[1]) == os.getpid():
                return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def busy(seconds: float) -> float:
    """Return how many cores are busy just now."""
    before = cpu()
    time.sleep(seconds)
    return (cpu() - before) / seconds


def received() -> int:
    """Return the bytes that came over the link of this namespace."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    raise AssertionError("no loopback")


def ratio(found: dict[str, list[Sample]], one: str, other: str) -> float:
    """Return the median of the rounds' ratios."""
    pairs = zip(found[one], found[other], strict=True)
    return statistics.median(a.wall / b.wall for a, b in pairs)


def table(title: str, found: dict[str, list[Sample]], base: str, unique: int) -> None:
    print(f"\n{title}: {unique / MEGA:.0f} MB unique")
    print(
        f"{'variant':14} {'wall s (min-max)':>22} {'ratio':>6} {'CPU s':>6} {'MB':>7} {'peak':>9}"
    )
    for variant, samples in found.items():
        walls = sorted(sample.wall for sample in samples)
        told = f"{statistics.median(walls):.2f} ({walls[0]:.2f}-{walls[-1]:.2f})"
        used = statistics.median(sample.cpu for sample in samples)
        other = statistics.median(sample.other for sample in samples)
        came = statistics.median(sample.received for sample in samples) / MEGA
        peak = max(sample.peak for sample in samples)
        print(
            f"{variant:14} {told:>22} {ratio(found, variant, base):6.3f} {used:6.2f} {other:6.2f} "
            f"{came:7.0f} {f'{peak // 1024} MiB' if peak else '':>9}"
        )


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate of the loopback address and its key; everything here believes it."""
    made, key = folder / "bench.crt", folder / "bench.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", key, "-out", made, "-days", "2", "-subj", "/CN=bench",
         "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True,
    )  # fmt: skip
    os.environ["SSL_CERT_FILE"] = str(made)
    return made, key


@contextlib.contextmanager
def limited(rate: str):
    """Limit the link of this namespace; a large packet must fit into the bucket."""
    subprocess.run(
        ["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", rate, "burst", "256kb",
         "latency", "100ms"], check=True,
    )  # fmt: skip
    try:
        yield
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)


def measure(folder: Path, options: argparse.Namespace) -> bool:
    """Run everything and tell; return whether all goals are met."""
    filled = folder / f"registry-{options.scale:g}"
    told = filled / "images.json"
    if not told.exists():
        print(f"filling a registry in {filled}", flush=True)
        with local.serving(filled) as address:
            told.write_text(json.dumps(local.fill(address, options.scale)))
    with local.serving(filled, tls=certificate(folder)) as address:
        bench = Bench(folder, address, json.loads(told.read_text()), options.patience)
        groups = [("fill", "refill"), ("skopeo-dir",), ("skopeo-shared",), ("curl",)]
        bench.run("curl")  # everything into the page cache
        found = bench.rounds(groups, options.rounds)
        slow = {}
        if options.limited_rounds:
            with limited("1gbit"):
                slow = bench.rounds([("fill",), ("curl",)], options.limited_rounds)
        table("local", found, "skopeo-dir", bench.unique)
        checks: list[Callable[[], bool]] = []
        for name, pair, limit in GOALS:
            checks.append(lambda n=name, p=pair, most=limit: at_most(n, ratio(found, *p), most))
        came = max(sample.received for sample in found["fill"]) / bench.unique
        again = max(sample.received for sample in found["refill"])
        peak = max(sample.peak for sample in found["fill"])
        checks.append(lambda: at_most("bytes of a fill / unique bytes", came, OVERHEAD))
        checks.append(lambda: at_most("bytes of a refill, MB", again / MEGA, 0.2))
        checks.append(lambda: at_most("peak memory of a fill, MiB", peak / 1024, PEAK / 1024))
        if slow:
            table("link of 1 Gbit/s", slow, "curl", bench.unique)
            name, pair, limit = LIMITED_GOAL
            checks.append(lambda: at_most(name, ratio(slow, *pair), limit))
        print()
        return all([check() for check in checks])  # noqa: C419 - every one is told


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure pulls beside other tools.")
    parser.add_argument("--folder", type=Path, default=ROOT / "_build" / "bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limited-rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the images' sizes")
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for quiet")
    options = parser.parse_args()
    if not os.environ.get(INSIDE):
        argv = ["unshare", "--net", "--", sys.executable, "-m", "tests.bench.pull", *sys.argv[1:]]
        return subprocess.run(
            argv, cwd=ROOT, env={**os.environ, INSIDE: "1"}, check=False
        ).returncode
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        return 0 if measure(options.folder, options) else 1
    finally:
        shutil.rmtree(options.folder / "target", ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
