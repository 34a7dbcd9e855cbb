"""What the machine is called."""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap.configuration import NAME_REMEDY, name_problem
from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

# What a machine calls itself that nobody gave a name.
LOCAL = ("localhost", "localhost.localdomain", "localhost4", "localhost6")


def name(subject: Subject) -> Iterator[Problem]:
    """The machine is called as the configuration says, and as a node may be called."""
    found, wanted = subject.machine.name, subject.configuration.minion
    problem = name_problem(found) or ("is every machine's name" if found in LOCAL else "")
    if problem:
        yield Problem(
            Group.NAME, "/etc/hostname", f"the host name {found or '(none)'} {problem}", NAME_REMEDY
        )
    elif wanted and wanted != found:
        where = subject.configuration.place("ca.minion")
        what = f"ca.minion is {wanted}, but this machine is {found}"
        remedy = f"Write ca.minion: {found}, or run it on {wanted}."
        yield Problem(Group.NAME, where, what, remedy)
    if found and not subject.machine.resolves(found):
        what = f"the host name {found} does not resolve"
        yield Problem(Group.NAME, "/etc/hosts", what, f"Add a line: ADDRESS {found}")
