"""Runners of the Salt master: who calls them, and what they have minions do, by name.

A runner begins with people (the orchestrations that the spec names) or with a script of the medium
or a module of ours that names it. What it asks of minions stands in it, or in a utility, as a
whole name: ``"metalk8s_etcd.status"``.
"""

from __future__ import annotations

import re

from buildchain.actions.medium_check import Check
from buildchain.actions.states import STATES

ORCHESTRATIONS = ("deploy_node", "remove_node")
CALLED = re.compile(r"\b(metalk8s_\w+)\.[\w$]")
NAMED = re.compile(r"\bmetalk8s_\w+")
# What is in brackets, the loader looks up: that is another matter (states.read_modules).
ASKED = re.compile(r"""(?<!\[)["'](metalk8s_\w+)\.(\w+)["']""")
STATE = re.compile(r"(?m)^  (metalk8s_\w+)\.(\w+):$")


def follow(check: Check) -> None:
    """Want what runners are and what they name."""
    for name in ORCHESTRATIONS:
        _follow_orchestration(check, f"{STATES}metalk8s/orchestrate/{name}.sls")
    for path in sorted(check.paths):
        text = check.text(path) or "" if path.endswith((".py", ".sh")) else ""
        if path.endswith(".sh") and "salt-run" in text:
            for name in CALLED.findall(text):
                check.want(f"{STATES}_runners/{name}.py", path)
        elif path.startswith((f"{STATES}_modules/", f"{STATES}_states/", "metalk8s_")):
            # Other things have such names, too.
            for name in set(NAMED.findall(text)):
                runner = f"{STATES}_runners/{name}.py"
                if runner in check.paths:
                    check.want(runner, path)
        elif path.startswith((f"{STATES}_runners/", f"{STATES}_utils/")):
            for module, function in ASKED.findall(text):
                _want_function(check, f"{STATES}_modules/{module}.py", function, path)


def _follow_orchestration(check: Check, path: str) -> None:
    text = check.text(path)
    if text is None:
        return
    check.want(path, "the operator")
    for module, function in STATE.findall(text):
        _want_function(check, f"{STATES}_states/{module}.py", function, path)


def _want_function(check: Check, path: str, function: str, who: str) -> None:
    check.want(path, who)
    check.wanted.functions[path, function].add(who)
