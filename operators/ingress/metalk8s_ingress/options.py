"""What an Ingress chooses by its annotations.

``docs/explanation/ingress.md`` has the table, and a test compares it with ``CHOICES``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
LONGEST = 24 * MILLISECONDS["h"]
LARGEST = 1 << 40
_AMOUNT = re.compile(r"([0-9]{1,12})(ms|s|m|h|k|g)?", re.ASCII | re.IGNORECASE)


class Options(NamedTuple):
    """How a backend is to be treated.

    :param connect: milliseconds until it has to take a connection.
    :param server: milliseconds until it has to say something.
    :param body: bytes that a request's body may have; 0: any number.
    :param redirect: whether requests without TLS are sent to where there is TLS.
    """

    connect: int = 5_000
    server: int = 60_000
    body: int = 0
    redirect: bool = False


def chosen(encrypted: bool, choices: Mapping[str, int | bool]) -> Options:
    """Return the options of a path.

    :param encrypted: whether its host is there with TLS; then that is what is used.
    :param choices: by option, what ``read`` found.
    """
    default = Options(redirect=encrypted)
    return Options(
        connect=choices.get("connect", default.connect),
        server=choices.get("server", default.server),
        body=choices.get("body", default.body),
        redirect=bool(choices.get("redirect", default.redirect)),
    )


def _time(text: str) -> int:
    found = _amount(text, MILLISECONDS)
    if not 0 < found <= LONGEST:
        raise ValueError("expected a time from 1ms to 24h, as 500ms, 30s or 5m")
    return found


def _size(text: str) -> int:
    found = _amount(text, BYTES)
    if not 0 <= found <= LARGEST:
        raise ValueError("expected a number of bytes, as 65536, 512k, 8m or 1g; 0 for any")
    return found


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError('expected "true" or "false"')
    return text == "true"


def _amount(text: str, units: dict[str, int]) -> int:
    found = _AMOUNT.fullmatch(text)
    unit = (found[2] or "").lower() if found else None
    return int(found[1]) * units[unit] if found and unit in units else -1


# By annotation: the option, and how its text is read.
CHOICES: dict[str, tuple[str, Callable[[str], int | bool]]] = {
    "connect-timeout": ("connect", _time),
    "server-timeout": ("server", _time),
    "max-body-size": ("body", _size),
    "ssl-redirect": ("redirect", _truth),
}


def read(choices: Iterable[tuple[str, str]]) -> tuple[dict[str, int | bool], list[str]]:
    """Return what is chosen, and what is wrong with the rest, which is as if it were not there."""
    found: dict[str, int | bool] = {}
    problems = []
    for key, text in choices:
        if key not in CHOICES:
            problems.append(f"annotation {key[:63]!r}: there is none; known: {', '.join(CHOICES)}")
            continue
        option, reader = CHOICES[key]
        try:
            found[option] = reader(text)
        except ValueError as error:
            problems.append(f"annotation {key}: got {text[:40]!r}, {error}")
    return found, problems
