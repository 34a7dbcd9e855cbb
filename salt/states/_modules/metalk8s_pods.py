"""Pods of this machine, as its container engine knows them. Runs ``ctr``."""

from __future__ import annotations

import subprocess


def running(pod: str) -> list[str]:
    """Name the containers of a pod that run, the one that holds it included.

    :param pod: its name, whatever its namespace.
    """
    label = f'labels."io.kubernetes.pod.name"=={pod}'
    of_pod = _lines("containers", "list", "--quiet", label)
    tasks = [line.split() for line in _lines("tasks", "list")[1:]]
    alive = {task[0] for task in tasks if task[2] == "RUNNING"}
    return [container for container in of_pod if container in alive]


def _lines(*arguments: str) -> list[str]:
    argv = [*__salt__["metalk8s_engine.command"](), *arguments]
    run = subprocess.run(argv, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()
