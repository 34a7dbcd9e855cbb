"""The packet filter, as somebody set it up before us."""

from __future__ import annotations

import re
from collections.abc import Iterator

from metalk8s_bootstrap.machine import NOT_THERE
from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

HOOKS = ("forward", "input")
TABLE = re.compile(r"^table (\S+ \S+) {")
CHAIN = re.compile(r"^\s+chain (\S+) {")
BASE = re.compile(r"^\s+type filter hook (\w+) .*policy drop;")
POLICY = re.compile(r"^-P (INPUT|FORWARD) DROP$", re.MULTILINE)
REMEDY = (
    "Set its policy to accept, or use firewalld, which is told of our ports. Where your own rules "
    "let through what docs/reference/ports.md lists, write site: {firewall: {own_rules: true}}."
)


def filters(subject: Subject) -> Iterator[Problem]:
    """Packets for the machine and between pods are not dropped for want of a rule.

    No other chain can take back what one drops (nft(8)); firewalld's own never has that policy.
    """
    if subject.configuration.site.get("firewall", {}).get("own_rules", False):
        return
    status, printed = subject.machine.call(["nft", "list", "chains"])
    found = list(_dropping(printed))
    if status == NOT_THERE:
        _, printed = subject.machine.call(["iptables", "-S"])
        found = [f"{name} of iptables" for name in POLICY.findall(printed)]
    for chain in found:
        what = f"chain {chain} drops what no rule lets through"
        yield Problem(Group.NETWORK, "the packet filter", what, REMEDY)


def _dropping(listed: str) -> Iterator[str]:
    table = chain = ""
    for line in listed.splitlines():
        opened, inner, base = TABLE.match(line), CHAIN.match(line), BASE.match(line)
        table = opened[1] if opened else table
        chain = inner[1] if inner else chain
        if base and base[1] in HOOKS:
            yield f"{chain} of table {table}"
