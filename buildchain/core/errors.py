"""What can go wrong through no fault of the code: a reason and a remedy.

Anything else that is raised is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class BuildError(Exception):
    """A failure that the person in front of the terminal can mend.

    :param reason: what went wrong, with the file and expected/actual values.
    :param solution: the next thing to do, in the imperative.
    :param details: tail of a tool's output, shown below the sentence.
    """

    default_solution = "Read _build/build.log, it has the whole transcript."

    def __init__(self, reason: str, *, solution: str = "", details: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.solution = solution or self.default_solution
        self.details = details

    def friendly(self) -> str:
        """Return the message for a terminal: class name, reason, output, remedy."""
        lines = [f"{type(self).__name__}: {self.reason}"]
        if self.details:
            lines += ["", *(f"    | {line}" for line in self.details.splitlines()), ""]
        lines += [f"  What to do: {self.solution}"]
        return "\n".join(lines)


class ConfigError(BuildError):
    """A setting in ``.env`` or the environment is unknown or has a bad value."""

    default_solution = (
        "Correct it in .env or the environment; .env.example lists every option and its values."
    )


class PinError(BuildError):
    """A file under ``buildchain/pins`` or ``packages`` says something impossible."""


class LockError(BuildError):
    """An input is not as locked, where it has to be."""

    default_solution = (
        "Run ./doit.sh lock, review the difference and commit it; for a development build (no "
        "SIGNING_KEY) LOCK_POLICY=roll takes what the archive has."
    )


class DocumentError(BuildError):
    """Pages of the manual have mistakes: dead links, missing anchors, no chapter."""

    default_solution = "Correct the pages; one that is new goes into docs/site/chapters.toml."


class ToolError(BuildError):
    """A program the build needs is missing or too old."""

    default_solution = "Run ./doit.sh setup, which installs what the build needs."


class CommandError(BuildError):
    """A program that was started ended with a failure.

    :ivar status: its exit status; below 0: the number of the signal that ended it.
    """

    status = 1


class ChecksumError(BuildError):
    """Bytes are not the bytes the pins name."""


class FetchError(BuildError):
    """An input could not be fetched."""

    default_solution = "Check the network and the machine's APT sources, then run the same again."


class EngineError(BuildError):
    """The Docker engine does not answer or refused a request."""

    default_solution = "Start it (./doit.sh setup does) or point DOCKER_HOST at a running one."


class EngineAccessError(EngineError):
    """There is a Docker engine, but not for this user."""


class SpaceError(BuildError):
    """The file system of the build tree is full."""

    default_solution = "Free some room or set BUILD_ROOT in .env to a larger file system."


class SigningError(BuildError):
    """A signature could not be made or does not hold."""


class ReleaseError(BuildError):
    """A release of this checkout would not be what a release promises."""

    default_solution = (
        "Mend what is listed, then run it again; ./doit.sh release --dry-run tells it in seconds."
    )


class WaitingError(BuildError):
    """A step waits for signatures that are made elsewhere.

    :ivar wanted: identity of each signature to what it is of.
    """

    wanted: Mapping[str, str] = MappingProxyType({})

    default_solution = (
        "Write down what is to be signed (./doit.sh sign_request --output FILE), have FILE signed "
        "where the key is, import the answer (./doit.sh sign_import ANSWER) and run the same again."
    )

    @classmethod
    def of(cls, wanted: Mapping[str, str]) -> WaitingError:
        """Return the error of a step, or of a whole run, that wants these."""
        subject = "1 signature is" if len(wanted) == 1 else f"{len(wanted)} signatures are"
        names = ", ".join(sorted(set(wanted.values())))
        error = cls(f"{subject} made elsewhere and not here yet: {names}")
        error.wanted = dict(wanted)
        return error


class ContentError(BuildError):
    """What was built is not what it should be."""


class PlaceError(BuildError):
    """A place for releases cannot be reached, or does not let us."""

    default_solution = "Check the address, the network and your login, then run the same again."
