"""The runner in the pod of the Salt master, asked through ``kubectl exec``.

One program answers all questions: to start Salt takes a second and a half of a processor.
"""

from __future__ import annotations

import json
from typing import Any

from metalk8s_deployment.cluster import Cluster, UnreachableError
from metalk8s_deployment.dialog import Dialog

RUNNER = "metalk8s_deploy"
SERVE = ("salt-run", "--out=json", "--log-level=quiet", f"{RUNNER}.serve")
MARK = f"{RUNNER}: "  # of its answers


class Runner:
    """Started with the first question, and again when a step has started the master anew."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._pod = cluster, ""
        self._dialog: Dialog | None = None

    def ask(self, function: str, *words: str) -> dict[str, Any]:
        """Call a function of the runner; return what it answers.

        :raises UnreachableError: it answers nothing that a runner of ours would.
        """
        said = self._answer(json.dumps([function, *words]))
        try:
            answer = json.loads(said or "")
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.close()
            shown = answer if isinstance(answer, str) else self._cluster.system.tail
            last = (shown.strip().splitlines() or ["it said nothing"])[-1]
            raise UnreachableError(f"{RUNNER}.{function} gave no answer in {self._pod}: {last}")
        return answer

    def _answer(self, question: str) -> str | None:
        """Ask, and ask a new program when the one that was there ended before it heard that."""
        for _ in ("the one that is there", "a new one"):
            dialog = self._open()
            dialog.say(question)
            if dialog.hear() is not None:
                return dialog.hear()
        return None

    def _open(self) -> Dialog:
        if self._dialog is None or self._dialog.has_ended:
            self.close()
            self._pod = self._cluster.master()
            argv = self._cluster.within(self._pod, *SERVE)
            self._dialog = Dialog(self._cluster.system, argv, MARK)
        return self._dialog

    def close(self) -> None:
        """Ask nothing more, or begin anew."""
        if self._dialog:
            self._dialog.close()
            self._dialog = None
