"""The command behind bootstrap.sh."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from metalk8s_bootstrap import (
    checks,
    configuration,
    folders,
    problems,
    progress,
    record,
    system,
)
from metalk8s_bootstrap.machine import Machine
from metalk8s_bootstrap.medium import Medium
from metalk8s_bootstrap.steps import STEPS, Run
from metalk8s_bootstrap.subject import Subject
from metalk8s_bootstrap.system import LockedError, StepError, System

CONFIGURATION = "etc/metalk8s/bootstrap.yaml"
LOG = "var/log/metalk8s/bootstrap.log"
LOCK = "run/metalk8s/bootstrap.lock"
# What a killed run has left may install packages.
PATIENCE = 120.0  # seconds


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Read what bootstrap.sh hands over; operators see its --help, not this one's."""
    parser = argparse.ArgumentParser("metalk8s_bootstrap")
    parser.add_argument("--medium", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True, help="is deleted in the end")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--verified", type=float, required=True, help="seconds that it took")
    parser.add_argument("verification", nargs="*", help="arguments of verify.sh")
    return parser.parse_args(argv)


def find(machine: Machine, medium: Medium) -> tuple[Subject, list[problems.Problem]]:
    """Read the configuration and run every check."""
    path = machine.root / CONFIGURATION
    read, wrong = configuration.read(path, medium.parameters)
    subject = Subject(read, machine, medium)
    return subject, [*wrong, *checks.run(subject)]


def main(argv: Sequence[str], machine: Machine, patience: float = PATIENCE) -> int:
    """Check, and unless only that was asked for, run the steps; return the exit status."""
    arguments = _arguments(argv)
    folders.forget_umask()
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        subject, wrong = find(machine, Medium(arguments.medium))
        for problem in wrong:
            print(f"bootstrap.sh: error: {problem}", file=sys.stderr)
        if wrong:
            several = f"{len(wrong)} problems" if len(wrong) > 1 else "1 problem"
            print(f"bootstrap.sh: {several}; nothing was changed", file=sys.stderr)
            return problems.status(wrong)
        if arguments.check:
            print("bootstrap.sh: the configuration and this machine are fine; nothing was changed")
            return 0
        return _locked(arguments, subject, patience)
    finally:
        shutil.rmtree(arguments.scratch, ignore_errors=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _locked(arguments: argparse.Namespace, subject: Subject, patience: float) -> int:
    root = subject.machine.root
    try:
        with (
            system.locked(root / LOCK, patience) as lock,
            progress.opened(root / LOG) as log,
        ):
            shown = progress.Progress(log, len(STEPS) + 2, arguments.verbose)
            return _bootstrap(arguments, subject, System(root, shown, lock))
    except LockedError as error:
        print(
            f"bootstrap.sh: error: another run holds {error}\n"
            f"    Wait for it; `fuser -v {error}` shows it.",
            file=sys.stderr,
        )
        return problems.LOCKED


def _bootstrap(arguments: argparse.Namespace, subject: Subject, on: System) -> int:
    shown, began = on.progress, time.monotonic()
    given = record.of_run(subject.machine, subject.medium, CONFIGURATION)
    run = Run(
        subject.configuration,
        subject.machine,
        arguments.medium,
        subject.medium.version,
        tuple(arguments.verification),
        on,
        is_repeated=record.read(subject.machine) == given,
    )
    shown.passed("verify the medium", arguments.verified)
    shown.passed("check the configuration and this machine", 0.0)
    try:
        for step in STEPS:
            with shown.step(step.title) as result:
                result.append(step.do(run))
    except (StepError, KeyboardInterrupt, OSError) as error:
        reason = "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        return _failed(shown, reason, subject.machine.root / LOG)
    # Passwords of the configuration are short: who has the digest could try them.
    on.write(f"/{record.PLACE}", given.text, 0o600)
    took = time.monotonic() - began + arguments.verified
    print(f"MetalK8s {run.version} is there, after {took:.0f} s. Log: /{LOG}")
    return 0


def _failed(shown: progress.Progress, reason: str, log: Path) -> int:
    shown.note(f"FAILED: {shown.title}: {reason}")
    print(
        f'bootstrap.sh: error: step {shown.number} of {shown.total}, "{shown.title}": {reason}\n'
        f"    The log {log} has more. Mend it and run bootstrap.sh again: it goes on from here.",
        file=sys.stderr,
    )
    return problems.STEP_FAILED


def here() -> int:
    """Run on this machine."""
    return main(sys.argv[1:], Machine.here())
