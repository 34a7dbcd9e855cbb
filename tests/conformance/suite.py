"""Kubernetes' own tests: what there are, and a run of some of them against a cluster.

Runs ``docker``: the suite is a container on the network of the machines. The image of its pods is
put onto each machine first, as there is no registry that has it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.conformance import choice, report
from tests.conformance.report import Outcome
from tests.testbed.machine import KUBECTL, Machine, docker

SERVER = re.compile(r"(server\"?: *\"?)https://[^\s\",]+")
# The suite leaves them behind: everything else of it is in namespaces that it removes.
POLICY = "e2e-test-privileged-psp"
LABEL = "e2e-framework"  # of its namespaces
GRACE = 120  # seconds that a suite has to write its reports, when its time is over
CLEANING = 180  # seconds that namespaces may take to go
LISTED = r"\[sig-network\]"
CTR = "ctr --namespace k8s.io images"


@dataclass(frozen=True)
class Suite:
    """What the build has left of the suite.

    :param folder: what was compiled.
    :param kubectl: the program, which the tests call.
    :param archive: image of the pods, for machines.
    :param image: the same, in the engine; the suite runs in it, too.
    """

    folder: pathlib.Path
    kubectl: pathlib.Path
    archive: pathlib.Path
    image: str

    @property
    def names(self) -> list[str]:
        """Return how the tests call the image of their pods."""
        lines = (self.folder / "images").read_text(encoding="utf-8").splitlines()
        return [line.split(" ")[1] for line in lines]

    def known(self, folder: pathlib.Path) -> list[str]:
        """Ask the suite for its tests about networks.

        :param folder: where it may write.
        """
        words = (f"--ginkgo.focus={LISTED}", "--ginkgo.dryRun", "--report-dir=/report")
        self._start(folder, "none", "/suite/e2e.test", *words)
        found = report.read(folder)
        return sorted(one.name for one in found.values() if one.verdict == report.PASSED)

    def provide(self, machines: Iterable[Machine]) -> None:
        """Put the image of the pods onto machines, all at once."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(self._provide, machines))

    def _provide(self, machine: Machine) -> None:
        there = machine.shell(f"{CTR} list --quiet").split()
        if set(self.names) <= set(there):
            return
        with self.archive.open("rb") as stream:
            argv = ["docker", "exec", "-i", machine.name, *CTR.split(), "import", "-"]
            done = subprocess.run(argv, stdin=stream, capture_output=True, check=False)
        assert done.returncode == 0, f"{machine.name}: {done.stderr.decode()}"

    def run(
        self,
        first: Machine,
        chosen: Sequence[str],
        folder: pathlib.Path,
        *,
        processes: int,
        seconds: int,
    ) -> list[Outcome]:
        """Run tests against the cluster of a machine; :func:`clean` removes what they leave.

        :param folder: an empty one, for reports and what the suite prints (``output``).
        :param processes: how many tests run side by side.
        :param seconds: what is not done then, did not run.
        """
        runner = ("/suite/ginkgo", f"--nodes={processes}", "--noColor", "--keepGoing")
        words = (f"--focus={choice.focus(chosen)}", "/suite/e2e.test", "--")
        flags = ("--kubeconfig=/report/kubeconfig", "--provider=skeleton", "--disable-log-dump",
                 "--node-schedulable-timeout=3m", "--system-pods-startup-timeout=3m")  # fmt: skip
        secret = folder / "kubeconfig"
        secret.touch(0o600)
        secret.write_text(kubeconfig(first), encoding="utf-8")
        try:
            said = self._start(folder, first.network, *runner, *words, *flags,
                               "--report-dir=/report", seconds=seconds)  # fmt: skip
        finally:
            secret.unlink()
        outcomes = report.judge(chosen, report.read(folder))
        if all(one.verdict == report.LEFT_OUT for one in outcomes):
            tail = "\n".join(said.splitlines()[-report.LINES :])
            return [Outcome("the suite", report.FAILED, said=tail), *outcomes]
        return outcomes

    def _start(
        self, folder: pathlib.Path, network: str, *words: str, seconds: int | None = None
    ) -> str:
        """Run a program of the suite to its end, or to that of its time, for what it prints."""
        name = f"metalk8s-conformance-{os.getpid()}-{folder.name}"
        volumes = (f"{self.folder}:/suite:ro", f"{self.kubectl}:/usr/bin/kubectl:ro")
        argv = [
            *("docker", "run", "--rm", f"--name={name}", f"--network={network}"),
            *(f"--volume={volume}" for volume in (*volumes, f"{folder}:/report")),
            *(f"--entrypoint={words[0]}", self.image, *words[1:]),
        ]
        with (folder / "output").open("wb") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                print(f"{words[0]}: not done after {seconds} s")
                # All but the first process, which waits for them and their reports.
                docker("exec", name, "sh", "-c", "kill -INT -1")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE)
            finally:
                if process.poll() is None:
                    docker("rm", "--force", name)
                    process.wait()
        return (folder / "output").read_text(encoding="utf-8", errors="replace")


def built(build: pathlib.Path) -> Suite | None:
    """Return what the build has left; nothing when ``_conformance_image`` was not run."""
    receipt, folder = build / "receipts" / "conformance_image.json", build / "conformance"
    if not receipt.is_file():
        return None
    reference = json.loads(receipt.read_text(encoding="utf-8"))["facts"]["reference"]
    kubectl = build / "packages" / "kubernetes" / "compiled" / "kubectl"
    return Suite(folder / "compiled", kubectl, folder / "images.tar", str(reference))


def clean(first: Machine) -> None:
    """Wait until the namespaces of the tests are gone, and remove what else they leave."""
    first.kubectl(f"delete namespaces --selector={LABEL} --wait=false --ignore-not-found")
    gone = f'test -z "$({KUBECTL} get namespaces --selector={LABEL} --output=name)" && echo gone'
    first.wait(gone, CLEANING)
    first.kubectl(f"delete podsecuritypolicy,clusterrole {POLICY} --ignore-not-found")


def kubeconfig(first: Machine) -> str:
    """Return how the administrator reaches the API server of a machine from outside."""
    text = first.shell("cat /etc/kubernetes/admin.conf")
    text, count = SERVER.subn(rf"\1https://{first.address}:6443", text)
    assert count, f"/etc/kubernetes/admin.conf of {first.name} names no server"
    return text
