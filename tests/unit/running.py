"""Real doit runs inside the test process."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain
from doit.globals import Globals


@dataclass(frozen=True)
class Result:
    """What a run of doit gave."""

    status: int
    out: str
    err: str

    def marked(self, mark: str) -> list[str]:
        """Return the subjects (last words) of the lines with a mark."""
        lines = [line for line in self.out.splitlines() if line.startswith(f"{mark}  ")]
        return [re.sub(r"\s+[\d.]+ s$", "", line)[4:].split()[-1] for line in lines]

    @property
    def executed(self) -> list[str]:
        return self.marked("..")


def run_doit(root: Path, namespace: Mapping[str, object], *argv: str) -> Result:
    """Run doit with the plugins of the checkout's pyproject.toml."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    plugins = settings["tool"]["doit"]["plugins"]
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        # doit took hold of stdout when it was imported, which was before this test.
        output = Path(folder) / "output"
        config = {**namespace["DOIT_CONFIG"], "outfile": str(output)}
        main = DoitMain(
            ModuleTaskLoader({**namespace, "DOIT_CONFIG": config}),
            config_filenames=(),
            extra_config={kind.upper(): plugin for kind, plugin in plugins.items()},
        )
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = main.run(list(argv))
        except SystemExit as stop:
            status = stop.code
        finally:
            Globals.dep_manager = None
        drawn = output.read_text(encoding="utf-8") if output.exists() else ""
    return Result(int(status or 0), drawn + out.getvalue(), err.getvalue())


def namespace_of(
    build: Path, tasks: Callable[[], Iterable[dict[str, object]]]
) -> dict[str, object]:
    """Return the namespace of a dodo file that has these tasks."""
    from buildchain.core import report

    def task_all() -> Iterable[dict[str, object]]:
        yield from tasks()

    return {
        "DOIT_CONFIG": {
            "reporter": report.BuildReporter,
            "dep_file": str(build / ".doit.json"),
            "backend": "whole_json",
            "par_type": "thread",
            "cleanforget": True,
        },
        "task_all": task_all,
    }
