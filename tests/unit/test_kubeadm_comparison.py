"""How our files are held against kubeadm's."""

from __future__ import annotations

from tests.integration import kubeadm

THEIRS = """
spec:
  containers:
    - name: a
      command: [a, --x=1, --y=2=3]
      period: 0s
"""
OURS = """
spec:
  containers:
    - name: a
      command: [a, --y=2=4, --z]
      extra: {}
"""


def test_differences() -> None:
    """By option and name; what is empty, or a duration of no length, is as good as not there."""
    assert kubeadm.differences(THEIRS, OURS) == {
        "spec/containers/a/command/--x": ("1", None),
        "spec/containers/a/command/--y": ("2=3", "2=4"),
        "spec/containers/a/command/--z": (None, ""),
    }


def test_unexplained() -> None:
    """What no entry names, and entries that name nothing."""
    found = {"f.yaml": kubeadm.differences(THEIRS, OURS)}
    meant = [
        {"file": "*.yaml", "path": "spec/*/--[xy]", "reason": "It is so."},
        {"file": "g.yaml", "path": "*", "reason": "It was so."},
    ]
    left, idle = kubeadm.unexplained(found, meant)
    assert left == {"f.yaml: spec/containers/a/command/--z": (None, "")}
    assert idle == meant[1:]
