"""Knot, by its control socket: what a zone has, and one transaction of changes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from metalk8s_dns.libknot import Connection, KnotError
from metalk8s_dns.records import Record, server_name

TTL = "5"  # seconds: what a client may keep of an answer
TIMEOUT = 10  # seconds, for one word of Knot
# Of SOA: refresh, retry and expire are for secondaries, of which there is none. The last is how
# long it may be remembered that a name is not there.
TIMES = "7200 1800 86400 5"


Command = dict[str, str]


class AuthorityError(Exception):
    """Knot did not do what it was told."""


@dataclass(frozen=True)
class Change:
    """What is different in a zone."""

    removed: frozenset[Record]
    added: frozenset[Record]


@dataclass(frozen=True)
class Held:
    """What a zone has.

    :param serial: of its SOA; empty: the zone is not there yet.
    """

    serial: str
    records: frozenset[Record]


class Authority:
    """The Knot of this pod.

    :param domain: of the cluster, absolute: the SOA names its server.
    """

    def __init__(self, socket: Path, domain: str) -> None:
        self._socket, self._domain = socket, domain

    def read(self, zone: str) -> Held:
        """Return what a zone has.

        :raises AuthorityError: Knot does not answer.
        """
        with self._connected() as control:
            return _held(_ask(control, _command("zone-read", zone)))

    def serials(self, zones: tuple[str, ...]) -> dict[str, str]:
        """Return the serials of zones; empty for one that is not there.

        :raises AuthorityError: Knot does not answer.
        """
        with self._connected() as control:
            return {zone: _serial(control, zone) for zone in zones}

    def apply(self, zone: str, before: Held, change: Change) -> Held:
        """Change a zone in one transaction: who asks meanwhile gets all of before or all of after.

        :raises AuthorityError: Knot does not answer or refuses; the zone is as before.
        """
        with self._connected() as control:
            _begin(control, zone)
            try:
                made = [] if before.serial else [Record(zone, "SOA", self._soa())]
                _tell(
                    control,
                    *(_command("zone-set", zone, one) for one in made),
                    *(_command("zone-unset", zone, one) for one in sorted(change.removed)),
                    *(_command("zone-set", zone, one) for one in sorted(change.added)),
                )
                _tell(control, _command("zone-commit", zone))
            except AuthorityError:
                with contextlib.suppress(AuthorityError):
                    _tell(control, _command("zone-abort", zone))
                raise
            serial = _serial(control, zone)
        return Held(serial, before.records - change.removed | change.added)

    def _soa(self) -> str:
        server = server_name(self._domain)
        return f"{server} hostmaster.{self._domain} {int(time.time())} {TIMES}"

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Knot talks to one at a time: nobody stays connected."""
        try:
            with contextlib.closing(Connection(self._socket, TIMEOUT)) as control:
                yield control
        except KnotError as error:
            raise AuthorityError(f"{self._socket}: {error}") from error


class _RefusedError(AuthorityError):
    """Knot said no."""


def _begin(control: Connection, zone: str) -> None:
    try:
        _tell(control, _command("zone-begin", zone))
    except _RefusedError:  # there is one that a program did not finish before it was killed
        _tell(control, _command("zone-abort", zone))
        _tell(control, _command("zone-begin", zone))


def _serial(control: Connection, zone: str) -> str:
    question = {**_command("zone-read", zone), "owner": "@", "kind": "SOA"}
    try:
        return _held(_ask(control, question)).serial
    except _RefusedError:  # it has no records
        return ""


def _command(verb: str, zone: str, record: Record | None = None) -> Command:
    if record is None:
        return {"command": verb, "zone": zone}
    ttl = TTL if verb == "zone-set" else ""
    return {"command": verb, "zone": zone, **record._asdict(), "ttl": ttl}


def _tell(control: Connection, *commands: Command) -> None:
    """Say things, and hear all of the answers.

    :raises AuthorityError: one of them is refused.
    """
    problems = [said for said in control.ask(commands) if said.error]
    for said in problems[:1]:
        words = (commands[0]["zone"], said.owner, said.kind, said.data)
        raise _RefusedError(f"{' '.join(filter(None, words))}: {said.error}")


def _ask(control: Connection, command: Command) -> list[Record]:
    """Say one thing and hear all of the answer.

    :raises AuthorityError: it is an error.
    """
    answer: list[Record] = []
    problem = ""
    for said in control.ask([command]):
        problem = problem or said.error
        if said.kind:
            answer.append(Record(said.owner, said.kind, said.data))
    if problem:
        raise _RefusedError(f"{' '.join(filter(None, command.values()))}: {problem}")
    return answer


def _held(answer: list[Record]) -> Held:
    serial = [record.data.split()[2] for record in answer if record.kind == "SOA"]
    rest = frozenset(record for record in answer if record.kind != "SOA")
    return Held("".join(serial), rest)
