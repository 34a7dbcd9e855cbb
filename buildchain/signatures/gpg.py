"""Argument lists for GnuPG and rpmsign.

Programs: ``gpg``, ``gpgv``, ``gpgconf``, ``rpmsign``. Signatures carry a given time, so the same
key over the same bytes gives the same signature; no key signs at a time before its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# Before any release, so no signature is older than its key.
DEVELOPMENT_KEY_CREATED = 1577836800  # 2020-01-01, seconds since 1970
DEVELOPMENT_USER = "MetalK8s development key, NOT FOR PRODUCTION"


def key_parameters() -> str:
    """Return GnuPG's parameter file for a development key.

    RSA, because rpm of EL 8 verifies nothing newer.
    """
    return f"""\
%no-protection
Key-Type: RSA
Key-Length: 3072
Key-Usage: sign
Name-Real: {DEVELOPMENT_USER}
Creation-Date: seconds={DEVELOPMENT_KEY_CREATED}
Expire-Date: 0
%commit
"""


def _gpg(home: Path) -> list[str | Path]:
    return ["gpg", "--homedir", home, "--batch", "--no-tty", "--pinentry-mode", "loopback"]


def argv_for_generation(home: Path, parameters: Path) -> list[str | Path]:
    """Make a key from a parameter file."""
    return [*_gpg(home), "--gen-key", parameters]


def argv_for_import(home: Path, key: Path) -> list[str | Path]:
    """Put a key into a home."""
    return [*_gpg(home), "--import", key]


def argv_for_listing(home: Path) -> list[str | Path]:
    """List secret keys in machine-readable form."""
    return [*_gpg(home), "--list-secret-keys", "--with-colons"]


def argv_for_public_listing(home: Path, fingerprint: str) -> list[str | Path]:
    """List a public key in machine-readable form."""
    return [*_gpg(home), "--list-keys", "--with-colons", fingerprint]


def parse_fingerprint(listing: str) -> str:
    """Return the first fingerprint of a listing, or an empty string."""
    for line in listing.splitlines():
        fields = line.split(":")
        if fields[0] == "fpr":
            return fields[9]
    return ""


def parse_first_date(listing: str) -> int:
    """Return the first date at which the key of a listing can sign, in seconds since 1970.

    Its own, or that of the oldest of its subkeys that sign and are not revoked (GnuPG's
    ``doc/DETAILS``); 0 when there is none.
    """
    made, signing = 0, []
    for line in listing.splitlines():
        fields = line.split(":")
        if fields[0] not in {"sec", "ssb", "pub", "sub"} or not fields[5].isdigit():
            continue
        created = int(fields[5])
        made = made or created
        # Small letters are what the (sub)key itself can do, capitals the key as a whole.
        if "s" in fields[11] and fields[1] != "r":
            signing.append(created)
    return max(made, min(signing)) if signing else 0


def argv_for_secret_export(home: Path, fingerprint: str, output: Path) -> list[str | Path]:
    """Write the secret key, ASCII armour."""
    return [*_gpg(home), "--armor", "--output", output, "--export-secret-keys", fingerprint]


def argv_for_export(home: Path, fingerprint: str, output: Path, *, armor: bool) -> list[str | Path]:
    """Write the public key, minimal, so that equal keys give equal files."""
    form = ["--armor"] if armor else []
    return [*_gpg(home), *form, "--export-options", "export-minimal", "--output", output,
            "--export", fingerprint]  # fmt: skip


def argv_for_public_export(
    home: Path, fingerprints: Sequence[str], output: Path
) -> list[str | Path]:
    """Write several public keys, for gpgv."""
    return [*_gpg(home), "--output", output, "--export", *fingerprints]


def argv_for_signature(
    home: Path,
    fingerprints: Sequence[str],
    file: Path,
    output: Path,
    *,
    epoch: int,
    kind: str = "detached",
) -> list[str | Path]:
    """Sign ``file`` as of ``epoch``, by every key.

    :param kind: ``detached`` (binary), ``armored`` (detached, ASCII) or ``clear`` (inline).
    """
    forms = {
        "detached": ["--detach-sign"],
        "armored": ["--armor", "--detach-sign"],
        "clear": ["--clear-sign"],
    }
    users = [word for fingerprint in fingerprints for word in ("--local-user", fingerprint)]
    return [*_gpg(home), "--faked-system-time", f"{epoch}!", "--digest-algo", "SHA256",
            *users, "--output", output, *forms[kind], file]  # fmt: skip


def argv_for_verification(
    keyrings: Sequence[Path], signature: Path, file: Path
) -> list[str | Path]:
    """Check a detached signature, by all of its keys, against binary key rings."""
    rings = [word for keyring in keyrings for word in ("--keyring", keyring)]
    return ["gpgv", *rings, signature, file]


def argv_for_status(keyring: Path, signature: Path, file: Path | None) -> list[str | Path]:
    """Check a signature, and say on standard output what it is.

    :param file: what it is of; ``None``: it is inline.
    """
    signed = [signature] if file is None else [signature, file]
    return ["gpgv", "--status-fd", "1", "--keyring", keyring, *signed]


def argv_for_introduction(home: Path, signature: Path, key: Path) -> list[str | Path]:
    """Check a detached signature of a key by a key of the user's."""
    return [*_gpg(home), "--verify", signature, key]


def argv_for_rpms(
    home: Path, fingerprint: str, epoch: int, rpms: Sequence[Path], *, program: str
) -> list[str | Path]:
    """Sign RPM packages in place as of ``epoch``.

    :param program: absolute path of gpg, which rpmsign does not look for.
    """
    # rpm's own command line has no fixed time: the one below is its default plus that.
    command = (
        f"{program} gpg"
        " --homedir %{_gpg_path} --batch --no-tty --no-armor"
        f" --faked-system-time {epoch}! --digest-algo sha256 -u %{{_gpg_name}}"
        " -sbo %{__signature_filename} %{__plaintext_filename}"
    )
    return ["rpmsign", "--addsign", "--define", f"_gpg_path {home}",
            "--define", f"_gpg_name {fingerprint}",
            "--define", f"__gpg_sign_cmd {command}", *rpms]  # fmt: skip


def argv_for_answered_rpm(fingerprint: str, rpm: Path) -> list[str | Path]:
    """Sign an RPM package in place with ``answer-rpm.sh`` of the current folder as gpg."""
    command = "/bin/sh sh ./answer-rpm.sh %{__signature_filename} %{__plaintext_filename}"
    return ["rpmsign", "--addsign", "--define", f"_gpg_name {fingerprint}",
            "--define", f"__gpg_sign_cmd {command}", rpm]  # fmt: skip
