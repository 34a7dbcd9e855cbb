"""A release key in a token: gpg asks its agent, the agent the token, and nothing of ours knows.

The token is SoftHSM behind PKCS#11, as hardware of many vendors is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from buildchain.core.errors import SigningError, WaitingError
from buildchain.core.layout import Layout
from buildchain.redhat import rpm_repository
from buildchain.signatures import answer, gpg, request, sign, signing
from buildchain.signatures.folder import Folder
from tests.integration import stub_rpms
from tests.integration.conftest import require, run
from tests.integration.stub_rpms import Stub

MODULE = pathlib.Path("/usr/lib/softhsm/libsofthsm2.so")
PIN = "1234"
SINCE, EPOCH = 1735689600, 1750000000
# Asks nobody: a person who knows the PIN.
PINENTRY = f"""#!/bin/sh
echo OK
while read -r command rest; do
    case $command in
    GETPIN) printf 'D {PIN}\\nOK\\n' ;;
    BYE) echo OK; exit ;;
    *) echo OK ;;
    esac
done
"""
KEY = """Key-Type: RSA
Key-Grip: {grip}
Key-Usage: sign
Name-Real: release key in a token
Creation-Date: seconds={since}
Expire-Date: 0
%commit
"""


@dataclasses.dataclass(frozen=True)
class Token:
    """A GnuPG home whose key is in a token, and the key's fingerprint."""

    home: pathlib.Path
    key: str

    def lock(self) -> None:
        """Forget the PIN."""
        run("gpgconf", "--homedir", self.home, "--kill", "all")


@pytest.fixture(scope="module")
def token() -> Iterator[Token]:
    """Provide a key that was made outside, put into the token, and is nowhere else."""
    require("softhsm2-util", "gnupg-pkcs11-scd", "p11tool", "openssl", "gpg", "gpgv")
    # The agent's socket has a short path.
    with tempfile.TemporaryDirectory(prefix="mk8s-token-", dir="/tmp") as folder:
        home = pathlib.Path(folder)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("SOFTHSM2_CONF", str(home / "softhsm2.conf"))
            _fill(home)
        _let_the_agent_use_it(home)
        try:
            yield Token(home, _make_key(home))
        finally:
            run("gpgconf", "--homedir", home, "--kill", "all")


def _fill(home: pathlib.Path) -> None:
    (home / "tokens").mkdir()
    config = f"directories.tokendir = {home}/tokens\nobjectstore.backend = file\n"
    (home / "softhsm2.conf").write_text(config)
    util = ("softhsm2-util", "--module", MODULE)
    run(*util, "--init-token", "--free", "--label", "release", "--pin", PIN, "--so-pin", PIN)
    key, pem = home / "key.pem", home / "certificate.pem"
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", pem,
        "-subj", "/CN=release", "-days", "1")  # fmt: skip
    run(*util, "--import", key, "--token", "release", "--label", "release", "--id", "a1",
        "--pin", PIN)  # fmt: skip
    key.unlink()
    run("p11tool", "--provider", MODULE, "--login", "--set-pin", PIN, "--batch", "--write",
        "--load-certificate", pem, "--label", "release", "--id", "a1",
        "pkcs11:token=release")  # fmt: skip


def _let_the_agent_use_it(home: pathlib.Path) -> None:
    (home / "gnupg-pkcs11-scd.conf").write_text(
        f"providers softhsm\nprovider-softhsm-library {MODULE}\n"
    )
    scripts = {
        "pinentry": PINENTRY,
        "scd": f"#!/bin/sh\nexport SOFTHSM2_CONF={home}/softhsm2.conf\n"
        f'exec gnupg-pkcs11-scd --homedir {home} "$@"\n',
    }
    for name, text in scripts.items():
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    (home / "gpg-agent.conf").write_text(
        f"scdaemon-program {home}/scd\npinentry-program {home}/pinentry\n"
    )


def _make_key(home: pathlib.Path) -> str:
    told = run("gpg-connect-agent", "--homedir", home, "SCD LEARN --force", "/bye")
    found = re.search(r"KEYPAIRINFO ([0-9A-F]{40}) ", told)
    assert found, told
    (home / "parameters").write_text(KEY.format(grip=found[1], since=SINCE))
    run("gpg", "--homedir", home, "--batch", "--card-status")
    run("gpg", "--homedir", home, "--batch", "--gen-key", home / "parameters")
    listing = run(*gpg.argv_for_listing(home))
    [secret] = [line for line in listing.splitlines() if line.startswith("sec:")]
    assert secret.split(":")[14].startswith("D276"), "the serial number of a token"
    return gpg.parse_fingerprint(listing)


@pytest.fixture
def layout(token: Token, tmp_path: pathlib.Path) -> Layout:
    """Return a build that has the public half only."""
    ring = tmp_path / "public.gpg"
    run("gpg", "--homedir", token.home, "--output", ring, "--export", token.key)
    return Layout(tmp_path, tmp_path / "build", tmp_path / "cache", "demo", ring)


def make(
    layout: Layout, key: str, folder: pathlib.Path, rpms: list[pathlib.Path]
) -> dict[str, bytes]:
    """Sign a file of each kind and packages; return what came out."""
    with signing.signer(layout, key) as signer:
        for kind in ("detached", "armored", "clear"):
            file = folder / kind
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{kind}\n")
            with contextlib.suppress(WaitingError):
                signer.sign(file, file.with_suffix(".sig"), epoch=EPOCH, kind=kind)
        with contextlib.suppress(WaitingError):
            rpm_repository.sign_copies(folder / "rpms", rpms, signer, epoch=EPOCH)
    names = [*folder.glob("*.sig"), *folder.glob("rpms/*")]
    return {path.name: path.read_bytes() for path in names}


def test_a_key_in_a_token(
    token: Token, layout: Layout, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere with gpg alone, in a checkout, and at hand: it signs, and the same each time."""
    rpms = stub_rpms.build(tmp_path / "stubs", [Stub("one"), Stub("two")])
    assert make(layout, token.key, tmp_path / "far", rpms) == {}
    request.write(Folder(layout.signatures), tmp_path / "request.tar", "request")
    run("tar", "-xf", tmp_path / "request.tar", "-C", tmp_path)
    monkeypatch.setenv("GNUPGHOME", str(token.home))
    token.lock()
    run("sh", tmp_path / "request" / "sign.sh", tmp_path / "answer.tar", stdin=subprocess.DEVNULL)
    with signing.signer(layout, token.key) as signer:
        assert signer.elsewhere is not None
        assert answer.accept(signer.elsewhere, [tmp_path / "answer.tar"]) == 5
    far = make(layout, token.key, tmp_path / "far", rpms)
    assert len(far) == 5
    at_hand = dataclasses.replace(layout, public_keys=None)
    assert make(at_hand, token.key, tmp_path / "near", rpms) == far
    assert sign.sign(tmp_path / "request.tar", tmp_path / "again.tar") == 5


def test_a_token_that_is_locked(
    token: Token, layout: Layout, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build has no terminal to ask for a PIN, and says what to do."""
    monkeypatch.setenv("GNUPGHOME", str(token.home))
    token.lock()
    at_hand = dataclasses.replace(layout, public_keys=None)
    with pytest.raises(SigningError, match="cannot sign") as caught:
        make(at_hand, token.key, tmp_path / "near", [])
    assert "Unlock the key in your gpg-agent" in caught.value.solution
