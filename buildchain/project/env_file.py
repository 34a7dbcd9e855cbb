"""The file ``.env``: which names it may assign.

``doit.sh`` loads it as a shell file, below the environment: what is set there already stays.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=")
# Not ours, but what a build uses: how to reach the world, where things of the user's are.
PASSED_ON = re.compile(
    r"(?:DOCKER|PIP|SSL_CERT|VAGRANT)_\w+|GNUPGHOME|TMPDIR|XDG_RUNTIME_DIR|PYTHON|CI|NO_COLOR"
    r"|(?i:https?_proxy|all_proxy|ftp_proxy|no_proxy)"
)
# So like an option that it is one, misspelt.
VERY_NEAR = 0.9


def problems(path: Path, known: Sequence[str]) -> Iterator[str]:
    """Name what ``.env`` assigns and nothing reads, with the nearest option."""
    if not path.exists():
        return
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        yield f"{path} cannot be read ({error.strerror})"
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = ASSIGNMENT.match(line)
        if match and not _is_known(match[1], known):
            near = difflib.get_close_matches(match[1], known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            yield f".env line {number}: {match[1]} is not an option{hint}"


def _is_known(name: str, known: Sequence[str]) -> bool:
    if name in known:
        return True
    is_misspelt = bool(difflib.get_close_matches(name, known, 1, VERY_NEAR))
    return bool(PASSED_ON.fullmatch(name)) and not is_misspelt
