"""Accounts and groups that programs of ours run under: their numbers are those of images."""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject


def accounts(subject: Subject) -> Iterator[Problem]:
    """Neither the names nor the numbers are somebody else's."""
    parameters = subject.medium.parameters
    users = [
        section["account"]
        for section in parameters.values()
        if isinstance(section, dict) and "account" in section
    ]
    groups = [*users, parameters["pki"]["service_accounts"]["group"]]
    for file, wanted in (("etc/passwd", users), ("etc/group", groups)):
        rows = [line.split(":") for line in subject.machine.text(file).splitlines()]
        there = [(row[0], row[2]) for row in rows if len(row) > 2]
        for ours in wanted:
            for name, number in there:
                if (name == ours["name"]) != (number == str(ours["id"])):
                    what = f"{name} has number {number}; {ours['name']} is to have {ours['id']}"
                    yield Problem(Group.CONFLICT, f"/{file}", what, "Give it another one.")
