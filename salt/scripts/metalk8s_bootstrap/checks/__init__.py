"""What a machine and its configuration have to be like before anything is changed.

Each check gives every problem it finds. docs/reference/bootstrap.md lists them for operators.
"""

from __future__ import annotations

from metalk8s_bootstrap.checks.accounts import accounts
from metalk8s_bootstrap.checks.archives import archives
from metalk8s_bootstrap.checks.conflicts import installations, ports, rivals
from metalk8s_bootstrap.checks.disks import disks
from metalk8s_bootstrap.checks.distribution import system, user
from metalk8s_bootstrap.checks.filters import filters
from metalk8s_bootstrap.checks.kernel import groups, modules, sysctls
from metalk8s_bootstrap.checks.names import name
from metalk8s_bootstrap.checks.networks import host, overlaps, planes, vip
from metalk8s_bootstrap.checks.packages import held, solvable, unfinished
from metalk8s_bootstrap.checks.resources import resources
from metalk8s_bootstrap.checks.settings import clock, identity, proxies, resolver, selinux, swap
from metalk8s_bootstrap.ownership import ownership
from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Check, Subject

CHECKS: tuple[Check, ...] = (
    *(user, system),
    *(planes, overlaps, host, vip, filters),
    name,
    *(resources, disks),
    *(ports, rivals, held, accounts, installations),
    *(swap, modules, groups, sysctls, selinux),
    *(clock, resolver, proxies, identity, unfinished),
    archives,
    ownership,
)


def run(subject: Subject) -> list[Problem]:
    """Run every check; what they say, in their order.

    The package manager is asked only where it can answer: not on a system that is no system of
    ours, nor while packages conflict that one has been told of already.
    """
    found = [problem for check in CHECKS for problem in check(subject)]
    if not any(problem.group is Group.PLATFORM for problem in found) and not any(
        problem.where in ("packages", "dpkg") for problem in found
    ):
        found += solvable(subject)
    return found
