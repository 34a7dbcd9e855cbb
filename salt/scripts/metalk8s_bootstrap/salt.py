"""Salt on this machine, before and after there is a master."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from metalk8s_bootstrap.medium import Medium
from metalk8s_bootstrap.system import StepError, System

CALL = "salt-call"
# Of the calls without a master; the minion's own configuration is a state's.
LOCAL_CONFIGURATION = "/run/metalk8s/salt"


@dataclass(frozen=True)
class Applied:
    """What applying states did."""

    states: int
    changed: int

    def __str__(self) -> str:
        return f"{self.states} states, {self.changed} changed"


@dataclass(frozen=True)
class Salt:
    """Calls of Salt for the version on a medium."""

    system: System
    medium: Medium
    minion: str

    @property
    def environment(self) -> str:
        """Name of the version's states and pillar."""
        return f"metalk8s-{self.medium.version}"

    def configure(self) -> None:
        """Write what calls without a master are configured with."""
        place = self.medium.place
        settings = {
            "file_client": "local",
            "id": self.minion,
            # A scope of its own is for what the minion starts: it would be stopped with it.
            "systemd.scope": False,
            "pillarenv_from_saltenv": True,
            "file_roots": {self.environment: [f"{place}/salt"]},
            "pillar_roots": {self.environment: [f"{place}/pillar"]},
        }
        self.system.write(f"{LOCAL_CONFIGURATION}/minion", json.dumps(settings, indent=1) + "\n")

    def synchronise(self) -> None:
        """Let Salt have the modules of the tree."""
        argv = [*self._call(local=True), "saltutil.sync_all", f"saltenv={self.environment}"]
        self.system.run(argv, sentence="Salt cannot read its modules from the medium")

    def apply(self, *names: str, local: bool) -> Applied:
        """Apply states, or the highstate when none is named.

        :raises StepError: with the first state that failed and why.
        """
        what = " ".join(names) or "the highstate"
        argv = [*self._call(local=local), "state.apply"]
        argv += [",".join(names)] if names else []
        printed = self.system.run(
            [*argv, f"saltenv={self.environment}"],
            sentence=f"Salt could not apply {what}",
            # Its statuses say that a state failed; its output says which.
            statuses=range(256),
        )
        return parse(printed, what, self.system.tail)

    def _call(self, *, local: bool) -> list[str]:
        where = ["--local", f"--config-dir={LOCAL_CONFIGURATION}"] if local else []
        return [CALL, *where, "--log-level=warning", "--log-file-level=quiet", "--out=json"]


def parse(printed: str, what: str, tail: str) -> Applied:
    """Read what ``state.apply`` printed.

    :param tail: the last that Salt said, for when that is nothing.
    :raises StepError: a state failed, or none was applied.
    """
    try:
        results: Any = json.loads(printed)["local"]
    except (ValueError, KeyError, TypeError):
        last = (tail.strip().splitlines() or ["it said nothing"])[-1]
        raise StepError(f"Salt could not apply {what}: {last}") from None
    if not isinstance(results, dict):
        said = " ".join(results) if isinstance(results, list) else str(results)
        raise StepError(f"Salt could not apply {what}: {_short(said)}")
    ordered = sorted(results.values(), key=lambda result: result["__run_num__"])
    failed = [result for result in ordered if result["result"] is False]
    # Those that were only not tried, because another failed, say nothing of their own.
    causes = [result for result in failed if "requisite failed" not in result["comment"]] or failed
    if causes:
        others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        first = causes[0]
        raise StepError(f'state "{first["__id__"]}": {_short(first["comment"])}{others}')
    return Applied(len(results), sum(1 for result in ordered if result["changes"]))


def _short(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[:500] or "it gave no reason"
