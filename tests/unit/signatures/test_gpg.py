"""Argument lists of GnuPG, and what it prints."""

from pathlib import Path

import pytest

from buildchain.signatures import gpg

HOME = Path("/h")
GPG = ["gpg", "--homedir", HOME, "--batch", "--no-tty", "--pinentry-mode", "loopback"]
SIGN = [*GPG, "--faked-system-time", "5!", "--digest-algo", "SHA256", "--local-user", "AB",
        "--output", Path("/o")]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (gpg.argv_for_generation(HOME, Path("/p")), [*GPG, "--gen-key", Path("/p")]),
        (gpg.argv_for_import(HOME, Path("/k")), [*GPG, "--import", Path("/k")]),
        (gpg.argv_for_listing(HOME), [*GPG, "--list-secret-keys", "--with-colons"]),
        (
            gpg.argv_for_secret_export(HOME, "AB", Path("/o")),
            [*GPG, "--armor", "--output", Path("/o"), "--export-secret-keys", "AB"],
        ),
        (
            gpg.argv_for_export(HOME, "AB", Path("/o"), armor=False),
            [*GPG, "--export-options", "export-minimal", "--output", Path("/o"), "--export", "AB"],
        ),
        (
            gpg.argv_for_export(HOME, "AB", Path("/o"), armor=True),
            [*GPG, "--armor", "--export-options", "export-minimal", "--output", Path("/o"),
             "--export", "AB"],
        ),
        (
            gpg.argv_for_signature(HOME, ["AB"], Path("/f"), Path("/o"), epoch=5),
            [*SIGN, "--detach-sign", Path("/f")],
        ),
        (
            gpg.argv_for_signature(HOME, ["AB"], Path("/f"), Path("/o"), epoch=5, kind="armored"),
            [*SIGN, "--armor", "--detach-sign", Path("/f")],
        ),
        (
            gpg.argv_for_signature(HOME, ["AB"], Path("/f"), Path("/o"), epoch=5, kind="clear"),
            [*SIGN, "--clear-sign", Path("/f")],
        ),
        (
            gpg.argv_for_verification([Path("/k")], Path("/s"), Path("/f")),
            ["gpgv", "--keyring", Path("/k"), Path("/s"), Path("/f")],
        ),
        (
            gpg.argv_for_rpms(HOME, "AB", 5, [Path("/a.rpm"), Path("/b.rpm")],
                              program="/bin/gpg"),
            ["rpmsign", "--addsign", "--define", "_gpg_path /h", "--define", "_gpg_name AB",
             "--define",
             "__gpg_sign_cmd /bin/gpg gpg --homedir %{_gpg_path} --batch --no-tty --no-armor"
             " --faked-system-time 5! --digest-algo sha256 -u %{_gpg_name}"
             " -sbo %{__signature_filename} %{__plaintext_filename}",
             Path("/a.rpm"), Path("/b.rpm")],
        ),
    ],
)  # fmt: skip
def test_arguments(argv, expected):
    assert argv == expected


def test_fingerprint():
    listing = "sec:u:3072:1:AA:1:::u:::scSC:::+:::23::0:\nfpr:::::::::ABCDEF:\ngrp:::::::::00:\n"
    assert gpg.parse_fingerprint(listing + listing.replace("ABCDEF", "SECOND")) == "ABCDEF"
    assert gpg.parse_fingerprint("") == ""


def test_key_parameters_make_a_signing_key_that_never_expires():
    text = gpg.key_parameters()
    assert "Key-Usage: sign\n" in text
    assert "Expire-Date: 0\n" in text
    assert f"Creation-Date: seconds={gpg.DEVELOPMENT_KEY_CREATED}\n" in text
