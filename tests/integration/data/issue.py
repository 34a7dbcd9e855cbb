"""Ask for certificates as minions do, without the thirty seconds that each publication takes.

Runs on the machine with the authorities: ``issue.py <Salt's libraries> <configuration>``. Standard
input: ``key`` (PEM) and ``asked``, pairs of a minion's id and a policy. Standard output: an answer
for each. The function is what the Salt master lets minions call, told of the minion as Salt tells
it; that the master lets them call nothing else is ``test_certificates.py``'s.
"""

from __future__ import annotations

import importlib
import json
import sys


def main(libraries: str, configuration: str) -> None:
    """Ask for each."""
    request = json.load(sys.stdin)
    sys.path.insert(0, libraries)
    options = importlib.import_module("salt.config").minion_config(configuration)
    caller = importlib.import_module("salt.client").Caller(mopts=options)
    issue = caller.sminion.functions["metalk8s_certificates.issue_to_minion"]
    answers = [
        issue(policy, request["key"], __pub_id=minion) for minion, policy in request["asked"]
    ]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
