"""A client of registries: manifests, blobs and what refers to an image.

Protocol: OCI distribution specification 1.1, "Pull" and "Content discovery".
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildchain.core.reference import DIGEST, Reference
from buildchain.store import manifest
from buildchain.store.authentication import Authenticator
from buildchain.store.failure import CROWDED, PASSING, TransferError, requested_pause
from buildchain.store.manifest import Descriptor, Manifest
from buildchain.store.origin import joined, origin_of
from buildchain.store.partial import Partial

if TYPE_CHECKING:
    from buildchain.store.transport import Answer, Transport

RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
PAGES = 100  # of one list, at most; each may be as large as a manifest
# Tags by which tools of before the referrers API attach things to an image.
ATTACHED = (".sig", ".att", ".sbom")


class AbsentError(TransferError):
    """The registry does not have it (404)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, passing=False)


class CorruptError(TransferError):
    """Bytes arrived, but not the ones of the digest."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, passing=True)


@dataclass(frozen=True)
class Endpoint:
    """Where a repository can be pulled from.

    :param base: ``http[s]://host[:port]``.
    :param reference: registry and repository as they are called there.
    """

    base: str
    reference: Reference

    @property
    def host(self) -> str:
        return self.reference.registry

    def url(self, *parts: str) -> str:
        """Return an address below the repository."""
        return "/".join([self.base, "v2", self.reference.repository, *parts])


class Registry:
    """Requests to registries; shared by threads.

    :param stopped: tells whether to break off.
    """

    def __init__(
        self,
        transport: Transport,
        authenticator: Authenticator,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._transport = transport
        self._authenticator = authenticator
        self._stopped = stopped

    def manifest(self, endpoint: Endpoint, name: str) -> Manifest:
        """Fetch a manifest by tag or digest.

        :raises CorruptError: asked for by digest, it has another one.
        :raises TransferError: it cannot be had.
        :raises ContentError: it is no manifest that we can carry.
        """
        accept = {"Accept": ", ".join(manifest.ACCEPTED)}
        with self._open("GET", endpoint, endpoint.url("manifests", name), accept) as answer:
            content = answer.read(manifest.LARGEST)
        origin = f"{endpoint.reference}@{name}" if ":" in name else f"{endpoint.reference}:{name}"
        # Before it is looked into: what is not what was asked for is not worth a word.
        if DIGEST.fullmatch(name) and manifest.digest_of(content) != name:
            raise CorruptError(f"{origin} does not match its digest")
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return manifest.parse(content, kind, origin)

    def digest_of(self, endpoint: Endpoint, tag: str) -> str:
        """Return the digest that a tag stands for now."""
        accept = {"Accept": ", ".join(manifest.ACCEPTED)}
        with self._open("HEAD", endpoint, endpoint.url("manifests", tag), accept) as answer:
            digest = answer.headers.get("Docker-Content-Digest", "")
        return digest if DIGEST.fullmatch(digest) else self.manifest(endpoint, tag).digest

    def referrers(self, endpoint: Endpoint, digest: str) -> tuple[Descriptor, ...]:
        """Return the manifests that refer to one, by the API or by the tag in its place.

        :raises TransferError: they cannot be had, or their list does not come to an end.
        """
        found: tuple[Descriptor, ...] = ()
        try:
            found = self._pages(endpoint, endpoint.url("referrers", digest))
        except AbsentError:
            with contextlib.suppress(AbsentError):
                tag = digest.replace(":", "-")
                return self.manifest(endpoint, tag).children
        return found

    def _pages(self, endpoint: Endpoint, first: str) -> tuple[Descriptor, ...]:
        url, seen = first, set[str]()
        found: dict[Descriptor, None] = {}
        accept = {"Accept": manifest.OCI_INDEX}
        while url:
            if url in seen or len(seen) == PAGES:
                raise TransferError(
                    f"{first} has no end: page {len(seen) + 1} is {url}", passing=False
                )
            seen.add(url)
            with self._open("GET", endpoint, url, accept) as answer:
                page = answer.read(manifest.LARGEST)
            found |= dict.fromkeys(manifest.parse(page, manifest.OCI_INDEX, url).children)
            url = _next(answer, url)
        return tuple(found)

    def blob(self, endpoint: Endpoint, wanted: Descriptor, partial: Partial) -> None:
        """Bring a partial blob to its end, from where it is.

        :raises CorruptError: it ended with another digest; nothing is left of it.
        :raises TransferError: it broke off; what came is kept.
        """
        if partial.offset > wanted.size:
            partial.restart()
        if partial.offset < wanted.size or not wanted.size:
            self._stream(endpoint, wanted, partial)
        if partial.hexdigest != wanted.hex:
            partial.restart()
            raise CorruptError(f"{wanted.digest} arrived with other bytes from {endpoint.host}")

    def _stream(self, endpoint: Endpoint, wanted: Descriptor, partial: Partial) -> None:
        start = partial.offset
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._open("GET", endpoint, endpoint.url("blobs", wanted.digest), headers) as answer:
            if answer.status == 416:
                partial.restart()
                raise TransferError(
                    f"{endpoint.host} has fewer bytes than already downloaded", passing=True
                )
            if answer.status == 200:
                # All of it, asked for or not: a server without ranges.
                if start:
                    partial.restart()
            elif not _continues(answer, start, wanted.size):
                partial.restart()
                raise TransferError(
                    f"{endpoint.host} sent a range that was not asked for", passing=True
                )
            self._receive(answer, wanted, partial)

    def _receive(self, answer: Answer, wanted: Descriptor, partial: Partial) -> None:
        expected = wanted.size - partial.offset
        if answer.length is not None and answer.length != expected:
            raise TransferError(
                f"{answer.origin.name} announces {answer.length} bytes instead of {expected}",
                passing=True,
            )
        partial.reserve(wanted.size)
        for piece in answer.pieces():
            if partial.offset + len(piece) > wanted.size:
                partial.restart()
                raise CorruptError(f"{wanted.digest}: {answer.origin.name} sends too much")
            partial.write(piece)
            if self._stopped():
                raise TransferError("interrupted", passing=False)
        if partial.offset != wanted.size:
            raise TransferError(f"{answer.origin.name} closed early", passing=True)

    @contextlib.contextmanager
    def _open(
        self, method: str, endpoint: Endpoint, url: str, headers: Mapping[str, str]
    ) -> Iterator[Answer]:
        """Make a request with what the registry wants of us; only good answers come back."""
        asked = origin_of(endpoint.base)
        for attempt in (1, 2):
            login = self._authenticator.headers(asked, endpoint.reference)
            with self._transport.open(method, url, {**headers, **login}) as answer:
                if answer.status in (200, 206, 416):
                    yield answer
                    return
                text = _message(answer.read())
                offered = answer.headers.getlist("WWW-Authenticate")
            used = login.get("Authorization", "")
            # Where the registry sent us to has no business with the login for it.
            is_foreign = answer.origin != asked
            is_over = attempt == 2 and not used.startswith("Basic ")
            if answer.status != 401 or is_foreign or is_over:
                raise _refusal(answer, text, offered)
            self._authenticator.renew(asked, endpoint.reference, used, offered)


def _continues(answer: Answer, start: int, size: int) -> bool:
    match = RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    return (
        match is not None
        and int(match[1]) == start
        and int(match[2]) == size - 1
        and match[3] in ("*", str(size))
    )


def _next(answer: Answer, asked: str) -> str:
    """Return the address of the next page (RFC 8288), or empty.

    :raises TransferError: it is elsewhere: our login has no business there.
    """
    if not answer.following:
        return ""
    url, stays = joined(asked, answer.following)
    if not stays:
        raise TransferError(f"{asked} goes on at {url}, elsewhere", passing=False)
    return url


def _refusal(answer: Answer, text: str, offered: list[str]) -> TransferError:
    where = f"{answer.origin.name} answers {answer.status}"
    reason = f"{where} ({text})" if text else where
    if answer.status == 404:
        return AbsentError(reason)
    after = requested_pause(answer.headers.get("Retry-After"))
    # A new token, and already out of date: clocks differ, or it is the server that is confused.
    stale = answer.status == 401 and any("invalid_token" in header for header in offered)
    return TransferError(
        reason,
        passing=answer.status in PASSING or stale,
        crowded=answer.status in CROWDED,
        after=after,
    )


def _message(body: bytes) -> str:
    """Return what an error of the specification says, in one line."""
    try:
        errors = json.loads(body)["errors"]
        text = "; ".join(f"{e.get('code', '')}: {e.get('message', '')}" for e in errors)
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""
    return " ".join(text.split())[:200]
