"""Signatures: a release key from the user's GnuPG home, or a development key made on first use.

With ``SIGNING_PUBLIC_KEY`` the release key is elsewhere, see :mod:`buildchain.signatures`.

Programs: ``gpg``, ``gpgv``, ``rpmsign``. The development key lives below the cache, mode 0600,
never in the build root; GnuPG's home is a short-lived folder so that no agent stays behind.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from buildchain.core import events, process, receipt
from buildchain.core.errors import CommandError, SigningError
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.signatures import gpg
from buildchain.signatures.elsewhere import Elsewhere
from buildchain.signatures.folder import Folder

STEM = "metalk8s"  # of the files of public keys
KEY_ID = 16  # digits
UNUSABLE = "Unusable secret key"  # what gpg says of one that is not valid at the date


@dataclass(frozen=True)
class Signer:
    """A key ready to sign, and the others that sign the medium with it.

    :param is_development: the key was made here; nothing it signs is a release.
    :param since: fingerprint to the first date at which the key can sign, seconds since 1970.
    :param elsewhere: where signatures come from when the home has public halves only.
    """

    home: Path
    fingerprint: str
    is_development: bool
    others: tuple[str, ...] = ()
    since: Mapping[str, int] = field(default_factory=dict)
    elsewhere: Elsewhere | None = None

    def sign(
        self, file: Path, output: Path, *, epoch: int, kind: str = "detached", by_all: bool = False
    ) -> Path:
        """Write a signature of ``file``; ``output`` appears whole.

        :param epoch: its date, unless a key is newer: then that key's (ADR 14).
        :param by_all: by the others too.
        :raises SigningError: a key cannot be used.
        """
        self.sign_forms(file, {kind: output}, epoch=epoch, by_all=by_all)
        return output

    def sign_forms(
        self, file: Path, outputs: Mapping[str, Path], *, epoch: int, by_all: bool = False
    ) -> None:
        """Write several kinds of signatures of ``file``; of the rest goes what :meth:`sign` says.

        :param outputs: kind to the file that is written.
        :raises WaitingError: the key is elsewhere, and not all of them are here.
        """
        keys = (self.fingerprint, *(self.others if by_all else ()))
        date = self._date(epoch, keys)
        if self.elsewhere is not None:
            # Armour goes around all signatures of a file; nobody asks for that of several keys.
            assert len(keys) == 1 or set(outputs) == {"detached"}
            manners = [(kind, key) for kind in outputs for key in keys]
            what = self.elsewhere.label(file)
            found = iter(self.elsewhere.signatures(what, file.read_bytes(), manners, date))
            for output in outputs.values():
                # As gpg has it: signatures by several keys stand one after the other.
                write_whole(output, b"".join(next(found) for _ in keys))
            return
        for kind, output in outputs.items():
            part = output.with_name(f".{output.name}.part")
            part.unlink(missing_ok=True)
            argv = gpg.argv_for_signature(self.home, keys, file, part, epoch=date, kind=kind)
            self._run(argv, date)
            part.chmod(0o644)
            part.replace(output)

    def sign_rpms(self, rpms: Sequence[Path], *, epoch: int) -> None:
        """Sign RPM packages in place; of ``epoch`` goes what :meth:`sign` says.

        :raises WaitingError: the key is elsewhere, and not all signatures are here.
        """
        date = self._date(epoch, (self.fingerprint,))
        if self.elsewhere is not None:
            self.elsewhere.sign_rpms(rpms, self.fingerprint, date, self.home)
            return
        program = shutil.which("gpg") or "/usr/bin/gpg"
        argv = gpg.argv_for_rpms(self.home, self.fingerprint, date, rpms, program=program)
        self._run(argv, date)

    def _date(self, epoch: int, keys: Sequence[str]) -> int:
        return max(epoch, *(self.since.get(key, 0) for key in keys))

    def export(self, folder: Path, stem: str) -> tuple[Path, Path]:
        """Write the public key as ``<stem>.gpg`` (for gpgv) and ``<stem>.asc`` (for rpm, apt)."""
        return self._export(self.fingerprint, folder, stem)

    def export_others(self, folder: Path, stem: str) -> tuple[Path, ...]:
        """Write the public keys of the others as ``<stem>-<last 16 digits>.gpg`` and ``.asc``."""
        return tuple(
            path
            for fingerprint in self.others
            for path in self._export(fingerprint, folder, f"{stem}-{fingerprint[-KEY_ID:]}")
        )

    def _export(self, fingerprint: str, folder: Path, stem: str) -> tuple[Path, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        binary, armored = folder / f"{stem}.gpg", folder / f"{stem}.asc"
        for output, armor in ((binary, False), (armored, True)):
            output.unlink(missing_ok=True)
            argv = gpg.argv_for_export(self.home, fingerprint, output, armor=armor)
            self._run(argv)
        return binary, armored

    def _run(self, argv: Sequence[str | Path], date: int = 0) -> None:
        try:
            process.run(argv)
        except CommandError as error:
            keys = ", ".join((self.fingerprint, *self.others))
            raise SigningError(
                f"key {keys} cannot sign",
                details=error.details,
                solution=_remedy(error.details, date),
            ) from error


def _remedy(details: str, date: int) -> str:
    """Return what helps against gpg's refusal to sign as of a date."""
    if UNUSABLE in details:
        day = datetime.datetime.fromtimestamp(date, datetime.UTC).date()
        return (
            f"Signatures are dated {day} here, when it had expired or was revoked: extend it, name "
            "another in SIGNING_KEY, or unset that for a development build."
        )
    return "Unlock the key in your gpg-agent, or unset SIGNING_KEY for a development build."


@contextlib.contextmanager
def signer(layout: Layout, signing_key: str) -> Iterator[Signer]:
    """Provide the key of this build.

    :param signing_key: fingerprints of release keys, or empty for the development key.
    :raises SigningError: a release key has no secret part in the user's GnuPG home, or no public
        one in ``SIGNING_PUBLIC_KEY``.
    """
    if signing_key:
        first, *others = signing_key.split()
        if layout.public_keys is not None:
            with _public_signer(layout, layout.public_keys, (first, *others)) as key:
                yield key
            return
        home, since = _user_home((first, *others))
        yield Signer(home, first, is_development=False, others=tuple(others), since=since)
        return
    if not layout.development_key.is_file():
        _make_development_key(layout.development_key)
    with _home() as home:
        process.run(gpg.argv_for_import(home, layout.development_key))
        listing = process.run(gpg.argv_for_listing(home))
        fingerprint = gpg.parse_fingerprint(listing)
        since = {fingerprint: gpg.parse_first_date(listing)}
        yield Signer(home, fingerprint, is_development=True, since=since)


@contextlib.contextmanager
def local_signer(layout: Layout, signing_key: str) -> Iterator[Signer]:
    """Provide a key for what never leaves this machine: nobody elsewhere is asked to sign that."""
    with signer(layout, "" if layout.public_keys is not None else signing_key) as key:
        yield key


@contextlib.contextmanager
def _public_signer(layout: Layout, file: Path, keys: Sequence[str]) -> Iterator[Signer]:
    """Provide keys of which only the public halves are here."""
    with _home() as home:
        since, missing = {}, []
        with _told(f"{file} holds no public keys"):
            process.run(gpg.argv_for_import(home, file))
        for key in keys:
            listing = ""
            with contextlib.suppress(CommandError):
                listing = process.run(gpg.argv_for_public_listing(home, key))
            since[key] = gpg.parse_first_date(listing)
            if gpg.parse_fingerprint(listing) != key:
                missing.append(key)
        if missing:
            raise SigningError(
                f"no public key {', '.join(missing)} in {file}",
                solution="Export all keys to it, where they are: gpg --export FINGERPRINT …",
            )
        ring = home / "keys.gpg"
        process.run(gpg.argv_for_public_export(home, keys, ring))
        elsewhere = Elsewhere(Folder(layout.signatures), ring)
        first, *others = keys
        yield Signer(
            home,
            first,
            is_development=False,
            others=tuple(others),
            since=since,
            elsewhere=elsewhere,
        )


@contextlib.contextmanager
def _told(reason: str) -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        raise SigningError(
            reason,
            details=error.details,
            solution="Let SIGNING_PUBLIC_KEY name what gpg --export has written.",
        ) from error


def _user_home(keys: Sequence[str]) -> tuple[Path, dict[str, int]]:
    """Return the user's GnuPG home, and since when each key can sign."""
    home = Path(os.environ.get("GNUPGHOME") or "~/.gnupg").expanduser()
    missing, since = [], {}
    for key in keys:
        listing = ""
        with contextlib.suppress(CommandError):
            listing = process.run([*gpg.argv_for_listing(home), key])
        since[key] = gpg.parse_first_date(listing)
        if gpg.parse_fingerprint(listing) != key:
            missing.append(key)
    if missing:
        raise SigningError(
            f"no secret key {', '.join(missing)} in {home}",
            solution="Import it, or unset SIGNING_KEY for a development build.",
        )
    return home, since


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    # The agent's socket lies here and its path may have 107 bytes at most: never below _build.
    with tempfile.TemporaryDirectory(prefix="mk8s-gpg-", dir="/tmp") as folder:
        home = Path(folder)
        try:
            yield home
        finally:
            process.run(["gpgconf", "--homedir", home, "--kill", "all"])


def _make_development_key(path: Path) -> None:
    events.note(f"making a development key, {path}: what it signs is no release")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _home() as home:
        parameters = home / "parameters"
        parameters.write_text(gpg.key_parameters(), encoding="utf-8")
        process.run(gpg.argv_for_generation(home, parameters))
        fingerprint = gpg.parse_fingerprint(process.run(gpg.argv_for_listing(home)))
        exported = home / "secret.asc"
        process.run(gpg.argv_for_secret_export(home, fingerprint, exported))
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.touch(mode=0o600)
        part.write_bytes(exported.read_bytes())
        part.replace(path)


def export_public_key(layout: Layout, signing_key: str, introduction: Path | None = None) -> Made:
    """Write the public halves to ``_build/keys``, where the ISO and the operator get them from.

    :param introduction: signature of the first one by the key it replaces; comes along.
    :raises SigningError: it is no such signature, or by a key that this user does not have.
    """
    for stale in layout.keys.glob(f"{STEM}*"):
        stale.unlink()
    with signer(layout, signing_key) as key:
        files: tuple[Path, ...] = key.export(layout.keys, STEM)
        files += key.export_others(layout.keys, STEM)
        if introduction is not None:
            files += (_introduce(key.home, introduction, files[0]),)
        facts = {
            "fingerprint": key.fingerprint,
            "development": key.is_development,
            "identity": _identity(layout.development_key) if key.is_development else [],
        }
    return Made(files, facts)


def _introduce(home: Path, introduction: Path, key: Path) -> Path:
    try:
        process.run(gpg.argv_for_introduction(home, introduction, key))
    except CommandError as error:
        raise SigningError(
            f"{introduction} introduces another key than the first of SIGNING_KEY",
            details=error.details,
            solution=f"Sign the key with the one it replaces: gpg --local-user <old key> "
            f"--detach-sign --output {introduction} {key}",
        ) from error
    target = key.with_name(f"{key.name}.sig")
    write_whole(target, introduction.read_bytes())
    return target


def keyrings(layout: Layout) -> tuple[Path, ...]:
    """Return the public keys of this build, the first one first."""
    first = layout.keys / f"{STEM}.gpg"
    return (first, *sorted(layout.keys.glob(f"{STEM}-*.gpg")))


def _identity(path: Path) -> list[int]:
    """Return what changes when the secret key is replaced, without reading it."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def is_exported_key_current(layout: Layout, signing_key: str, exported: Path) -> bool:
    """Tell whether the public key in the build root belongs to the key that would sign now."""
    if signing_key:
        return True
    try:
        recorded = receipt.read(exported).facts.get("identity")
        return recorded == _identity(layout.development_key)
    except OSError:
        return False
