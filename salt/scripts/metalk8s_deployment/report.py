"""What the operator sees of problems, facts and plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def problems(program: str, answer: Mapping[str, Any]) -> Iterator[str]:
    """Give the lines about what is wrong, for standard error."""
    for kind in ("warnings", "problems"):
        for sentence in answer.get(kind) or ():
            yield f"{program}: {'error' if kind == 'problems' else 'warning'}: {sentence}"
    found = len(answer.get("problems") or ())
    if found:
        several = f"{found} problems" if found > 1 else "1 problem"
        yield f"{program}: {several}; nothing was changed"


def facts(answer: Mapping[str, Any]) -> Iterator[str]:
    """Give a line for each thing that is known of the machine."""
    for name, value in sorted((answer.get("facts") or {}).items()):
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        yield f"  {name.replace('_', ' '):<16} {shown}".rstrip()


def plan(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Give a line for each step, as they would be shown while they are done."""
    width = len(str(len(steps)))
    for number, step in enumerate(steps, 1):
        done = "  (done already)" if step.get("done") else ""
        yield f"[{number:{width}}/{len(steps)}] {step['title']}{done}"
