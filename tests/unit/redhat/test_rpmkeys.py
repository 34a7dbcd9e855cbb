from pathlib import Path

import pytest

from buildchain.redhat import rpmkeys

GOOD = """\
    Header V4 RSA/SHA256 Signature, key ID 6b3c770a: OK
    Header SHA256 digest: OK
    Payload SHA256 digest: OK
"""
UNSIGNED = """\
    Header RSA signature: NOTFOUND
    Header DSA signature: NOTFOUND
    Header SHA256 digest: OK
"""
FOREIGN = """\
    Header V4 RSA/SHA256 Signature, key ID f43a730e: NOKEY
    Header DSA signature: NOTFOUND
    Header SHA256 digest: OK
"""
PAYLOAD = """\
    Header V4 RSA/SHA256 Signature, key ID 6b3c770a: OK
    Payload SHA256 digest: BAD (Expected f5d4 != 1af9)
"""
HEADER = """\
    Header V4 RSA/SHA256 Signature, key ID 6b3c770a: BAD
    Header SHA256 digest: BAD (Expected 3e62 != 00c9)
"""
# One good signature does not make up for another one.
BOTH = GOOD + FOREIGN


def test_a_package_without_signature_must_not_pass():
    argv = rpmkeys.argv_for_check(Path("/db"), [Path("/a.rpm")])
    assert argv == ["rpmkeys", "--dbpath", Path("/db"), "--define", "_pkgverify_level all",
                    "--checksig", "--verbose", Path("/a.rpm")]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (GOOD, ""),
        (UNSIGNED, "it is not signed"),
        (FOREIGN, "it is signed with another key (f43a730e, NOKEY)"),
        (PAYLOAD, "it was changed after it was signed"),
        (HEADER, "it was changed after it was signed"),
        (BOTH, "it is signed with another key (f43a730e, NOKEY)"),
        ("", "it is no RPM package"),
    ],
)
def test_what_is_wrong(said, wrong):
    first, second = Path("/x/first.rpm"), Path("/x/second.rpm")
    text = f"error: something on the other stream\n{first}:\n{said}{second}:\n{GOOD}"
    assert rpmkeys.parse_check(text, [first, second]) == {first: wrong, second: ""}


def test_a_package_that_is_not_mentioned_is_not_good():
    assert rpmkeys.parse_check("", [Path("/a.rpm")]) == {Path("/a.rpm"): "it is no RPM package"}
