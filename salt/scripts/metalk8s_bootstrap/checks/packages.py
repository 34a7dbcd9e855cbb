"""Packages: what the package manager would say of ours, before it is to install them."""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap import solver
from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

WHOLE = ("installed", "config-files", "not-installed")
FEW = 5


def unfinished(subject: Subject) -> Iterator[Problem]:
    """Dpkg is through with what it was asked; what a run of ours left, the next one mends."""
    if subject.begun or subject.machine.family != "debian":
        return
    broken = []
    for fields in subject.machine.dpkg():
        _, flag, state = [*fields.get("Status", "").split(), "", "", ""][:3]
        if flag == "reinstreq" or state not in WHOLE:
            broken.append(f"{fields['Package']} ({state or 'unknown'})")
    if broken:
        more = f" and {len(broken) - FEW} more" if len(broken) > FEW else ""
        what = f"is in the middle of {', '.join(broken[:FEW])}{more}"
        remedy = "Run `dpkg --configure -a` and `apt-get --fix-broken install`."
        yield Problem(Group.SYSTEM, "dpkg", what, remedy)


def held(subject: Subject) -> Iterator[Problem]:
    """Ours are not held at another version; whether other people's matter, the solver says."""
    wanted = solver.pinned(subject.medium, "debian")
    for fields in subject.machine.dpkg():
        name, there = fields["Package"], fields.get("Version", "")
        version = wanted.get(name, there)
        if fields.get("Status", "") == "hold ok installed" and version != there:
            what = f"{name} is held at {there}, the medium has {version}"
            remedy = f"Run `apt-mark unhold {name}`."
            yield Problem(Group.CONFLICT, "packages", what, remedy)


def solvable(subject: Subject) -> Iterator[Problem]:
    """The package manager finds a way to install ours, from the medium and what is here."""
    for sentence in solver.problems(subject.machine, subject.medium):
        remedy = (
            "Install what is missing from the operating system's own repositories, bring it up to "
            "date, or take back what holds it (apt-mark showhold, /etc/apt/preferences.d)."
        )
        yield Problem(Group.CONFLICT, "packages", sentence, remedy)
