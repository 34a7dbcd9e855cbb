"""What a machine and its configuration have to be like before anything is changed.

Each check gives every problem it finds. docs/reference/bootstrap.md lists them for operators.
"""

from __future__ import annotations

from metalk8s_bootstrap.checks.archives import archives
from metalk8s_bootstrap.checks.conflicts import installations, packages, ports
from metalk8s_bootstrap.checks.distribution import system, user
from metalk8s_bootstrap.checks.names import name
from metalk8s_bootstrap.checks.networks import host, overlaps, planes, vip
from metalk8s_bootstrap.checks.resources import resources
from metalk8s_bootstrap.checks.settings import clock, kernel, modules, swap
from metalk8s_bootstrap.ownership import ownership
from metalk8s_bootstrap.problems import Problem
from metalk8s_bootstrap.subject import Check, Subject

CHECKS: tuple[Check, ...] = (
    user,
    system,
    planes,
    overlaps,
    host,
    vip,
    name,
    resources,
    ports,
    packages,
    installations,
    swap,
    modules,
    kernel,
    clock,
    archives,
    ownership,
)


def run(subject: Subject) -> list[Problem]:
    """Run every check; what they say, in their order."""
    return [problem for check in CHECKS for problem in check(subject)]
