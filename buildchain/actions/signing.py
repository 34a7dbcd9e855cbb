"""Signatures: a release key from the user's GnuPG home, or a development key made on first use.

Programs: ``gpg``, ``gpgv``, ``rpmsign``. The development key lives below the cache, mode 0600,
never in the build root; GnuPG's home is a short-lived folder so that no agent stays behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain import events, process, receipt
from buildchain.errors import CommandError, SigningError
from buildchain.layout import Layout
from buildchain.receipt import Made
from buildchain.tools import gpg


@dataclass(frozen=True)
class Signer:
    """A key ready to sign.

    :param is_development: the key was made here; nothing it signs is a release.
    """

    home: Path
    fingerprint: str
    is_development: bool

    def sign(self, file: Path, output: Path, *, epoch: int, kind: str = "detached") -> Path:
        """Write a signature of ``file``; ``output`` appears whole.

        :raises SigningError: the key cannot be used.
        """
        part = output.with_name(f".{output.name}.part")
        part.unlink(missing_ok=True)
        argv = gpg.argv_for_signature(
            self.home, self.fingerprint, file, part, epoch=epoch, kind=kind
        )
        self._run(argv)
        part.chmod(0o644)
        part.replace(output)
        return output

    def sign_rpms(self, rpms: Sequence[Path], *, epoch: int) -> None:
        """Sign RPM packages in place."""
        program = shutil.which("gpg") or "/usr/bin/gpg"
        self._run(gpg.argv_for_rpms(self.home, self.fingerprint, epoch, rpms, program=program))

    def export(self, folder: Path, stem: str) -> tuple[Path, Path]:
        """Write the public key as ``<stem>.gpg`` (for gpgv) and ``<stem>.asc`` (for rpm, apt)."""
        folder.mkdir(parents=True, exist_ok=True)
        binary, armored = folder / f"{stem}.gpg", folder / f"{stem}.asc"
        for output, armor in ((binary, False), (armored, True)):
            output.unlink(missing_ok=True)
            argv = gpg.argv_for_export(self.home, self.fingerprint, output, armor=armor)
            self._run(argv)
        return binary, armored

    def _run(self, argv: Sequence[str | Path]) -> None:
        try:
            process.run(argv)
        except CommandError as error:
            raise SigningError(
                f"key {self.fingerprint} cannot sign",
                details=error.details,
                solution="Unlock the key in your gpg-agent, or unset SIGNING_KEY for a "
                "development build.",
            ) from error


@contextlib.contextmanager
def signer(layout: Layout, signing_key: str) -> Iterator[Signer]:
    """Provide the key of this build.

    :param signing_key: fingerprint of a release key, or empty for the development key.
    :raises SigningError: the release key has no secret part in the user's GnuPG home.
    """
    if signing_key:
        yield Signer(_user_home(signing_key), signing_key, is_development=False)
        return
    if not layout.development_key.is_file():
        _make_development_key(layout.development_key)
    with _home() as home:
        process.run(gpg.argv_for_import(home, layout.development_key))
        fingerprint = gpg.parse_fingerprint(process.run(gpg.argv_for_listing(home)))
        yield Signer(home, fingerprint, is_development=True)


def _user_home(signing_key: str) -> Path:
    home = Path(os.environ.get("GNUPGHOME", "~/.gnupg")).expanduser()
    listing = ""
    with contextlib.suppress(CommandError):
        listing = process.run([*gpg.argv_for_listing(home), signing_key])
    if gpg.parse_fingerprint(listing) != signing_key:
        raise SigningError(
            f"no secret key {signing_key} in {home}",
            solution="Import it, or unset SIGNING_KEY for a development build.",
        )
    return home


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


def export_public_key(layout: Layout, signing_key: str) -> Made:
    """Write the public half to ``_build/keys``, where the ISO and the operator get it from."""
    with signer(layout, signing_key) as key:
        files = key.export(layout.keys, "metalk8s")
        facts = {
            "fingerprint": key.fingerprint,
            "development": key.is_development,
            "identity": _identity(layout.development_key) if key.is_development else [],
        }
    return Made(files, facts)


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
