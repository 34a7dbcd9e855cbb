"""Commands of a page, typed one after the other into one shell, as a reader would."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from tests.documents.declared import Typed

MARK = "@@@ "
FAILED = f"{MARK}failed"
PATIENCE = 30  # seconds until something in the background is ready
SAID = "/tmp/metalk8s-documents.said"


def script(commands: Iterable[Typed]) -> str:
    """Return a script that names each command and runs it, until one fails."""
    lines = ["exec 2>&1 </dev/null"]
    for typed in commands:
        lines.append(f"printf '%s\\n' {shlex.quote(MARK + typed.command)}")
        lines.append(_background(typed) if typed.until else typed.command)
        lines.append(f"[ $? -eq 0 ] || {{ echo '{FAILED}'; exit 1; }}")
    return "\n".join([*lines, ""])


def _background(typed: Typed) -> str:
    # There is no event to wait for: it says that it is ready, to a file.
    ready = f"grep -qF {shlex.quote(typed.until)} {SAID}"
    return f"""{{
{typed.command}
}} >{SAID} 2>&1 &
for _ in $(seq {PATIENCE * 10}); do {ready} && break || sleep 0.1; done
{ready} || {{ cat {SAID}; false; }}"""


def verdict(page: str, status: int, output: str) -> str:
    """Return what is wrong with a run of a page: empty, or the command and what it said."""
    if status == 0 and FAILED not in output:
        return ""
    return f"{page}: this fails: {output.partition(FAILED)[0].rpartition(MARK)[2]}"
