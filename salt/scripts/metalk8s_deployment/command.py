"""The command behind deploy-node.sh and remove-node.sh."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from metalk8s_bootstrap import folders, progress, system
from metalk8s_bootstrap.progress import Progress
from metalk8s_bootstrap.system import LockedError, StepError, System

from metalk8s_deployment import report
from metalk8s_deployment.cluster import KUBECONFIG, OUTAGE, Cluster, UnreachableError
from metalk8s_deployment.runner import Runner

LOCK = "run/metalk8s/deployment.lock"
PATIENCE = 5.0  # seconds
SHOWN = 60  # characters of what a step says of itself
# Exit statuses; 30 and 31 are bootstrap.sh's, too.
USAGE, MACHINE, CLUSTER, PROBLEMS, LOCKED, FAILED = 1, 20, 21, 22, 30, 31
STATUSES = """\
exit status:
  0    all is well
  1    it could not begin: usage, a missing program
  20   this machine: not root, or not the bootstrap machine
  21   the cluster: its API server or Salt master does not answer
  22   something is wrong with the machine or its Node; nothing was changed
  30   another run is at it here
  31   a step failed

All that it does is in /var/log/metalk8s/%(prog)s.log. After a failure, run it again: it goes on.
"""
ABOUT = {
    "deploy": """\
Lets a machine join the cluster, or brings it to what its Node says. The Node has to be there
(kubectl apply, or --manifest), with its roles, its version and how to reach it.""",
    "remove": """\
Takes a machine out of the cluster: what runs there moves, and everything of MetalK8s leaves it.""",
}


class Parser(argparse.ArgumentParser):
    """Errors as bootstrap.sh has them."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments, and end."""
        self.exit(USAGE, f"{self.prog}: error: {message}; see --help\n")


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    kind, *words = argv
    parser = Parser(
        f"{kind}-node.sh",
        description=ABOUT[kind],
        epilog=STATUSES.replace("%(prog)s.log", f"{kind}-node.log"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("node", metavar="NODE", help="name of its Node")
    parser.add_argument("--dry-run", action="store_true", help="only show the steps")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the log, too")
    if kind == "deploy":
        parser.add_argument("--check", action="store_true", help="only say what is wrong with it")
        parser.add_argument("--manifest", metavar="FILE", help="apply this before")
    else:
        dead = "it does not answer and never will: leave it as it is"
        parser.add_argument("--dead", action="store_true", help=dead)
    found = parser.parse_args(words, argparse.Namespace(check=False, manifest=None, dead=False))
    if found.manifest and (found.check or found.dry_run):
        parser.error("--manifest changes the cluster, --check and --dry-run change nothing")
    if found.manifest and not Path(found.manifest).is_file():
        parser.error(f"--manifest {found.manifest}: no such file")
    found.program = parser.prog
    found.action = "remove_dead" if found.dead else kind
    return found


def main(
    argv: Sequence[str],
    root: Path,
    user: int,
    patience: float = PATIENCE,
    outage: float = OUTAGE,
) -> int:
    """Check, plan or do what is asked for; return the exit status.

    :param argv: ``deploy`` or ``remove``, then the operator's words.
    :param root: of the machine's files.
    :param user: number of who runs this.
    :param patience: seconds that another run may take, ``outage``: that the cluster may be away.
    """
    asked = _arguments(argv)
    asked.outage = outage
    folders.forget_umask()
    signal.signal(signal.SIGTERM, _interrupt)
    wrong = _not_here(root, user)
    if wrong:
        return _complain(asked.program, [wrong], MACHINE)
    if not shutil.which("kubectl", path=system.ENVIRONMENT["PATH"]):
        return _complain(asked.program, ["there is no kubectl on this machine"], USAGE)
    try:
        with system.locked(root / LOCK, patience) as lock:
            return _with_log(asked, root, lock)
    except LockedError as error:
        sentence = f"another run holds {error}\n    Wait for it; `fuser -v {error}` shows it."
        return _complain(asked.program, [sentence], LOCKED)


def _not_here(root: Path, user: int) -> str:
    if user != 0:
        return f"runs as user {user}, not as root\n    Run it as root, for example with sudo."
    if not (root / KUBECONFIG.lstrip("/")).is_file():
        return f"{KUBECONFIG} is not there\n    Run it on the bootstrap machine of the cluster."
    return ""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _complain(program: str, sentences: Iterable[str], status: int) -> int:
    for sentence in sentences:
        print(f"{program}: error: {sentence}", file=sys.stderr)
    return status


def _with_log(asked: argparse.Namespace, root: Path, lock: int) -> int:
    if asked.check or asked.dry_run:  # leaves no trace
        return _guarded(asked, root, lock, io.StringIO())
    with progress.opened(root / _log(asked).lstrip("/")) as log:
        return _guarded(asked, root, lock, log)


def _log(asked: argparse.Namespace) -> str:
    return f"/var/log/metalk8s/{asked.program.removesuffix('.sh')}.log"


def _guarded(asked: argparse.Namespace, root: Path, lock: int, log: TextIO) -> int:
    shown = Progress(log, 0, asked.verbose)
    cluster = Cluster(System(root, shown, lock), asked.outage)
    shown.note(f"{asked.program}: {asked.action} {asked.node}")
    try:
        if asked.manifest:
            cluster.apply(asked.manifest)
        with contextlib.closing(Runner(cluster)) as runner:
            if asked.check or asked.dry_run:
                return _look(asked, runner)
            return _run(asked, runner, shown)
    except UnreachableError as error:
        shown.note(f"FAILED: {error}")
        return _complain(asked.program, [str(error)], CLUSTER)
    except (StepError, KeyboardInterrupt) as error:
        reason = "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        return _failed(asked, shown, reason)


def _look(asked: argparse.Namespace, runner: Runner) -> int:
    words = [] if asked.check else [asked.action]
    answer = runner.ask("check" if asked.check else "plan", asked.node, *words)
    for line in report.problems(asked.program, answer):
        print(line, file=sys.stderr)
    for line in (*report.facts(answer), *report.plan(answer.get("steps") or ())):
        print(line)
    if answer.get("problems"):
        return PROBLEMS
    fine = f"{asked.node} may join" if asked.check else "this is what would be done"
    print(f"{asked.program}: {fine}; nothing was changed")
    return 0


def _run(asked: argparse.Namespace, runner: Runner, shown: Progress) -> int:
    began = time.monotonic()
    # The lock leaves this machine one run: the one before it is over, however it ended.
    answer = runner.ask("begin", asked.node, asked.action, platform.node())
    for line in report.problems(asked.program, answer):
        print(line, file=sys.stderr)
        shown.note(line)
    if answer.get("problems"):
        return PROBLEMS
    steps = answer.get("steps") or []
    shown.total = len(steps)
    changed = 0
    for step in steps:
        if step.get("done"):
            shown.number += 1
            shown.done(step["title"], 0.0, "done already")
        else:
            changed += _step(asked, runner, shown, step)
    runner.ask("end", asked.node)
    done = "has left the cluster" if asked.action.startswith("remove") else "is what it shall be"
    took = time.monotonic() - began
    print(f"{asked.node} {done}, after {took:.0f} s; {changed} changed. Log: {_log(asked)}")
    return 0


def _step(asked: argparse.Namespace, runner: Runner, shown: Progress, step: dict[str, Any]) -> int:
    """Do one step; return how much it changed.

    :raises StepError: it failed; somebody else may go on.
    """
    with shown.step(step["title"]) as result:
        answer = runner.ask("step", asked.node, step["id"])
        if "failed" in answer:
            # Not when this is killed: the runner may still be at it.
            runner.ask("end", asked.node)
            raise StepError(str(answer["failed"]))
        changed = int(answer.get("changed") or 0)
        # The log has all of it.
        said = str(answer.get("comment") or "")
        result.append(said if 0 < len(said) <= SHOWN else f"{changed} changed")
    return changed


def _failed(asked: argparse.Namespace, shown: Progress, reason: str) -> int:
    shown.note(f"FAILED: {shown.title}: {reason}")
    where = f'step {shown.number} of {shown.total}, "{shown.title}": ' if shown.title else ""
    print(
        f"{asked.program}: error: {where}{reason}\n    The log {_log(asked)} has more. "
        f"Mend it and run {asked.program} again: it goes on from here.",
        file=sys.stderr,
    )
    return FAILED


def here() -> int:
    """Run on this machine."""
    return main(sys.argv[1:], Path("/"), os.geteuid())
