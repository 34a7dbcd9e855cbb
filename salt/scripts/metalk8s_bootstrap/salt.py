"""Salt on this machine, before and after there is a master."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from metalk8s_bootstrap import master
from metalk8s_bootstrap.medium import Medium
from metalk8s_bootstrap.system import StepError, System

CALL = "salt-call"
# Of the calls without a master, and of those that let modules of Salt be as they are; the minion's
# own configuration is a state's.
LOCAL_CONFIGURATION = "/run/metalk8s/salt"
REPEATED_CONFIGURATION = "/run/metalk8s/salt-again"


class NotAppliedError(StepError):
    """No state was even tried."""


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
        """Write what calls are configured with."""
        place = self.medium.place
        modules = {
            # Where they are: who calls needs no copies.
            "module_dirs": [f"{place}/salt"],
            # To know whether there is one to speak of, it loads every module that Salt has.
            "disable_states": ["apache"],
        }
        local = {
            "file_client": "local",
            "id": self.minion,
            # A scope of its own is for what the minion starts: it would be stopped with it.
            "systemd.scope": False,
            "pillarenv_from_saltenv": True,
            "file_roots": {self.environment: [f"{place}/salt"]},
            "pillar_roots": {self.environment: [f"{place}/pillar"]},
            "ext_pillar_first": True,
            "ext_pillar": [{"metalk8s_nodes": self._nodes}],
            **modules,
        }
        repeated = {
            "default_include": "/etc/salt/minion.d/*.conf",
            "autoload_dynamic_modules": False,
            **modules,
        }
        for folder, settings in ((LOCAL_CONFIGURATION, local), (REPEATED_CONFIGURATION, repeated)):
            self.system.write(f"{folder}/minion", json.dumps(settings, indent=1) + "\n")

    @property
    def _nodes(self) -> dict[str, object]:
        """Say where the cluster says which machines it has, once there is one."""
        master = self.medium.parameters["salt_master"]
        return {
            "kubeconfig": f"{master['config_folder']}/site/kubeconfig",
            "kept": f"{master['data']}/metalk8s-nodes.json",
            "keep": False,
        }

    @property
    def has_master(self) -> bool:
        """Whether the master answers the minion of this machine, as both are set up."""
        configuration = self.medium.parameters["salt_minion"]["config"]
        return master.lets_in(self.system.path(configuration), self.system.path)

    def apply(self, *names: str, local: bool, is_repeated: bool = False) -> Applied:
        """Apply states, or the highstate when none is named.

        :param is_repeated: the minion has the modules of the medium, from the last time.
        :raises StepError: with the first state that failed and why.
        """
        what = " ".join(names) or "the highstate"
        configuration = REPEATED_CONFIGURATION if is_repeated else ""
        argv = [*_call(LOCAL_CONFIGURATION if local else configuration, local=local), "state.apply"]
        argv += [",".join(names)] if names else []
        printed = self.system.run(
            [*argv, f"saltenv={self.environment}"],
            sentence=f"Salt could not apply {what}",
            # Its statuses say that a state failed; its output says which.
            statuses=range(256),
        )
        return parse(printed, what, self.system.tail)


def _call(configuration: str, *, local: bool) -> list[str]:
    where = ["--local"] if local else []
    where += [f"--config-dir={configuration}"] if configuration else []
    return [CALL, *where, "--log-level=warning", "--log-file-level=quiet", "--out=json"]


def parse(printed: str, what: str, tail: str) -> Applied:
    """Read what ``state.apply`` printed.

    :param tail: the last that Salt said, for when that is nothing.
    :raises NotAppliedError: there are no results.
    :raises StepError: a state failed.
    """
    try:
        results: Any = json.loads(printed)["local"]
    except (ValueError, KeyError, TypeError):
        last = (tail.strip().splitlines() or ["it said nothing"])[-1]
        raise NotAppliedError(f"Salt could not apply {what}: {last}") from None
    if not isinstance(results, dict):
        said = " ".join(results) if isinstance(results, list) else str(results)
        raise NotAppliedError(f"Salt could not apply {what}: {_short(said)}")
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
