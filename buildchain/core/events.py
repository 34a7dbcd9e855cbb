"""What happens while building, as log records; only ``report`` draws them.

A record with a ``progress`` attribute is a :class:`Progress`; every other record is a line of the
transcript.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

LOGGER = logging.getLogger("metalk8s.build")


@dataclass(frozen=True)
class Progress:
    """How far a long step is.

    :param subject: what is worked on, a few words.
    :param done: units finished, ``total`` at the end.
    :param total: units in all; 0 when nobody knows.
    :param unit: what is counted, in the plural.
    """

    subject: str
    done: int
    total: int = 0
    unit: str = ""


def progress(subject: str, done: int, total: int = 0, unit: str = "") -> None:
    """Tell how far a step is."""
    event = Progress(subject, done, total, unit)
    LOGGER.info("%s %d/%d %s", subject, done, total, unit, extra={"progress": event})


def note(text: str) -> None:
    """Tell something the user should see on the terminal."""
    LOGGER.info("%s", text, extra={"note": text})


def closing(text: str) -> None:
    """Tell something now and again at the end, where it cannot be overlooked."""
    LOGGER.info("%s", text, extra={"note": text, "closing": text})


def summary(subject: str, text: str) -> None:
    """Tell something at the end only, in place of what was told of the subject before."""
    LOGGER.info("%s", text, extra={"summary": (subject, text)})


def transcript(text: str) -> None:
    """Add a line to the build log."""
    LOGGER.debug("%s", text)


def echo(text: str) -> None:
    """Pass on a line of a program that speaks to the user itself, a test runner say."""
    LOGGER.debug("%s", text, extra={"echo": text})
