"""An S3 bucket as a place.

The endpoint and the login come from where S3 clients of the machine find them:
``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_PROFILE`` and the
others, or ``~/.aws``. An object appears when it is whole; what arrived is read again.
"""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from buildchain.core.errors import ConfigError, PlaceError
from buildchain.publication.place import CHUNK, Absent, Target

ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9._+=-]+)*)/?")
TIMEOUT = 60  # seconds without a byte
ATTEMPTS = 4
GONE = frozenset({"NoSuchKey", "404", "NotFound"})
NO_LOGIN = frozenset({
    "403", "AccessDenied", "AuthorizationHeaderMalformed", "ExpiredToken", "Forbidden",
    "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken", "SignatureDoesNotMatch",
})  # fmt: skip
LOGIN = (
    "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile in ~/.aws, and what that "
    "user may do with the bucket."
)


class Bucket(Target):
    """A prefix of a bucket.

    :param text: ``s3://bucket[/prefix]``.
    :raises ConfigError: it is none.
    :raises PlaceError: the settings of the machine's S3 clients are no good.
    """

    def __init__(self, text: str) -> None:
        match = ADDRESS.fullmatch(text)
        if match is None:
            raise ConfigError(
                "the address of the bucket is none, or has a login in it",
                solution="Name s3://bucket/prefix; endpoint and login come from AWS_ENDPOINT_URL, "
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or ~/.aws.",
            )
        self.bucket, self.prefix = match[1], match[2].lstrip("/")
        self.name = text.rstrip("/")
        with self._translated(""):
            self._client = _client()
        # Equal names at two endpoints are two places.
        endpoint = urllib.parse.urlsplit(str(self._client.meta.endpoint_url))
        self.name += f" of {endpoint.netloc.rpartition('@')[2]}"

    def pieces(self, name: str, start: int = 0) -> Iterator[bytes]:
        """Yield an object from byte ``start`` on."""
        wanted = {"Range": f"bytes={start}-"} if start else {}
        with self._translated(name):
            answer = self._client.get_object(Bucket=self.bucket, Key=self._key(name), **wanted)
            with contextlib.closing(answer["Body"]) as body:
                yield from body.iter_chunks(CHUNK)

    def prepare(self, need: int) -> None:  # noqa: ARG002 - a bucket has no end
        """Prove that the bucket is there and lets us in."""
        with self._translated(""):
            self._client.list_objects_v2(Bucket=self.bucket, Prefix=self._key(""), MaxKeys=1)

    def sizes(self, folder: str) -> Mapping[str, int]:
        """Return the objects right below a prefix."""
        start = self._key(f"{folder}/" if folder else "")
        found = {}
        with self._translated(folder):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket, Prefix=start, Delimiter="/"):
                for each in page.get("Contents", ()):
                    found[each["Key"].removeprefix(start)] = each["Size"]
        return found

    def send(self, file: Path, name: str) -> None:
        """Put an object there, in parts when it is large."""
        key = self._key(name)
        with self._translated(name):
            self._end_uploads(key)
            self._client.upload_file(
                str(file), self.bucket, key, ExtraArgs={"ChecksumAlgorithm": "SHA256"}
            )

    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove objects."""
        for name in names:
            with self._translated(name):
                self._client.delete_object(Bucket=self.bucket, Key=self._key(f"{folder}/{name}"))

    def _end_uploads(self, key: str) -> None:
        """Let go of the parts of an upload that was interrupted: somebody pays for them."""
        answer = self._client.list_multipart_uploads(Bucket=self.bucket, Prefix=key)
        for upload in answer.get("Uploads", ()):
            if upload["Key"] == key:
                self._client.abort_multipart_upload(
                    Bucket=self.bucket, Key=key, UploadId=upload["UploadId"]
                )

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    @contextlib.contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        """Turn what boto3 raises into sentences, without what may be secret."""
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            raise self._answer(name, error) from None
        except Boto3Error as error:
            # An upload wraps what went wrong into a sentence of its own.
            inner = error.__context__
            if isinstance(inner, ClientError):
                raise self._answer(name, inner) from None
            raise self._failure(name, inner or error) from None
        except BotoCoreError as error:
            raise self._failure(name, error) from None

    def _answer(self, name: str, error: Any) -> Exception:
        """Return what an answer of the server means."""
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in GONE:
            return Absent(name)
        if code == "NoSuchBucket":
            return PlaceError(
                f"{self.name}: there is no such bucket",
                solution="Make the bucket, or name another one; AWS_ENDPOINT_URL says at which "
                "server.",
            )
        if code in NO_LOGIN:
            return PlaceError(f"{self.name}: the login is not let in ({code})", solution=LOGIN)
        return PlaceError(f"{self.name}: {name}: the server says {code[:80]}")

    def _failure(self, name: str, error: BaseException) -> PlaceError:
        """Return what went wrong before there was an answer; never the sentence of the library."""
        kind = type(error).__name__
        if "Credential" in kind or "Profile" in kind or "Token" in kind:
            return PlaceError(f"{self.name}: there is no login for S3 ({kind})", solution=LOGIN)
        if "SSL" in kind:
            return PlaceError(
                f"{self.name}: the server cannot be believed to be who it says ({kind})",
                solution="If its authority is one of yours, put its certificate into a file and "
                "name that in AWS_CA_BUNDLE.",
            )
        what = f"{name}: " if name else ""
        return PlaceError(
            f"{self.name}: {what}no answer ({kind})",
            solution="Check AWS_ENDPOINT_URL and the network, then run the same again.",
        )


def _client() -> Any:
    """Return a client with the machine's settings."""
    # Imported late: it takes its time, and only those with a bucket need it.
    import boto3
    from botocore.config import Config

    retries = {"mode": "standard", "total_max_attempts": ATTEMPTS}
    patience = Config(connect_timeout=TIMEOUT, read_timeout=TIMEOUT, retries=retries)
    try:
        return boto3.session.Session().client("s3", config=patience)
    except ValueError as error:
        raise PlaceError(
            "the settings of S3 clients on this machine are no good",
            solution="Correct AWS_ENDPOINT_URL, http[s]://host[:port], or what ~/.aws says.",
        ) from error
