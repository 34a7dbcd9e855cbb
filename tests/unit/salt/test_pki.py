"""Private keys and authorities. The keys are words; ``x509`` is stood in for."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from .loader import load

CONSTRAINTS = "critical, CA:TRUE, pathlen:0"
USAGE = "critical, digitalSignature, keyEncipherment, keyCertSign"


class X509:
    """Keys are ``key <bits> <number>``, certificates what Salt would read in them."""

    def __init__(self) -> None:
        self.made = 0
        self.ended = False

    def functions(self) -> dict[str, Any]:
        return {
            "x509.create_private_key": self.create_key,
            "metalk8s_keys.bits": self.size,
            "metalk8s_keys.public": lambda key: f"public {pathlib.Path(key).read_text('ascii')}\n",
            "x509.create_certificate": self.create,
            "x509.read_certificate": json.loads,
            "x509.expires": lambda _certificate, days: self.ended and days == 0,
        }

    def create_key(self, keysize: int) -> str:
        self.made += 1
        return f"key {keysize} {self.made}"

    def size(self, path: str) -> int:
        word, bits, _ = pathlib.Path(path).read_text("ascii").split()
        assert word == "key"
        return int(bits)

    def create(self, **asked: Any) -> str:
        assert asked["subjectKeyIdentifier"] == "hash"
        assert asked["days_valid"] == 3650
        assert (asked["basicConstraints"], asked["keyUsage"]) == (CONSTRAINTS, USAGE)
        return described(
            key=f"public {pathlib.Path(asked['signing_private_key']).read_text('ascii')}",
            CN=asked["CN"],
        )


def described(key: str = "public key 2048 1", CN: str = "ca") -> str:  # noqa: N803
    """Give a certificate as Salt reads it."""
    return json.dumps({"public_key": key, "subject": {"CN": CN}})


class Pki:
    """The state module, with what it has ``file.managed`` do."""

    def __init__(self, *, test: bool = False) -> None:
        self.x509 = X509()
        self.managed: list[dict[str, Any]] = []
        states = {"file.managed": self.manage}
        module = load(
            "_states/metalk8s_pki", salt=self.x509.functions(), states=states, opts={"test": test}
        )
        self.private_key, self.authority = module.private_key, module.authority

    def manage(self, name: str, contents: str, **attributes: Any) -> dict[str, Any]:
        """Write it, unless the user is one that there is not."""
        if attributes["user"] == "nobody":
            return {"name": name, "result": False, "changes": {}, "comment": "no such user"}
        self.managed.append(attributes)
        pathlib.Path(name).write_text(contents)
        return {"name": name, "result": True, "changes": {}, "comment": "fine"}


@pytest.fixture
def key(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "ca.key"
    path.write_text("key 2048 1")
    return str(path)


def test_a_key_is_made_once(tmp_path: pathlib.Path) -> None:
    """Nobody but its user reads it, and no log shows it."""
    pki, path = Pki(), tmp_path / "a.key"
    answer = pki.private_key(str(path), 2048, "etcd")
    assert (answer["result"], answer["changes"]) == (True, {str(path): "there is none"})
    again = pki.private_key(str(path), 2048, "etcd")
    assert (again["result"], again["changes"]) == (True, {})
    assert path.read_text() == "key 2048 1"
    attributes = {"user": "etcd", "group": "etcd", "mode": "0600", "show_changes": False}
    assert pki.managed == [attributes] * 2


def test_a_key_for_a_group(tmp_path: pathlib.Path) -> None:
    """It reads, and does not write."""
    pki = Pki()
    pki.private_key(str(tmp_path / "sa.key"), 2048, "root", "sa", "0640")
    attributes = {"user": "root", "group": "sa", "mode": "0640", "show_changes": False}
    assert pki.managed == [attributes]


def test_a_key_of_another_length_is_replaced(key: str) -> None:
    """The length is the site's choice."""
    answer = Pki().private_key(key, 4096, "root")
    assert answer["changes"] == {key: "it has 2048 bits, not 4096"}
    assert pathlib.Path(key).read_text() == "key 4096 1"


def test_what_is_no_key_stays(key: str) -> None:
    """It may be the only copy of something."""
    pathlib.Path(key).write_bytes(b"\xff garbage")
    answer = Pki().private_key(key, 2048, "root")
    assert answer["result"] is False
    assert "is no private key" in answer["comment"]
    assert pathlib.Path(key).read_bytes() == b"\xff garbage"


def test_what_cannot_be_written_is_a_failure(tmp_path: pathlib.Path) -> None:
    """With what file.managed says."""
    answer = Pki().private_key(str(tmp_path / "a.key"), 2048, "nobody")
    assert (answer["result"], answer["comment"]) == (False, "no such user")


def test_an_authority_is_made_once(key: str, tmp_path: pathlib.Path) -> None:
    """Everybody may read it."""
    pki, path = Pki(), tmp_path / "ca.crt"
    answer = pki.authority(str(path), key, "ca", 3650)
    assert (answer["result"], answer["changes"]) == (True, {str(path): "there is none"})
    assert path.read_text() == described()
    again = pki.authority(str(path), key, "ca", 3650)
    assert (again["result"], again["changes"]) == (True, {})
    attributes = {"user": "root", "group": "root", "mode": "0644", "show_changes": False}
    assert pki.managed == [attributes] * 2


def test_the_key_of_an_authority_stays(key: str) -> None:
    """Whatever its length: others count on it."""
    answer = Pki().private_key(key, 4096, "root", kept=True)
    assert (answer["result"], answer["changes"]) == (True, {})
    assert pathlib.Path(key).read_text() == "key 2048 1"


def test_an_authority_of_another_key_stays(key: str, tmp_path: pathlib.Path) -> None:
    """One of the two was lost, and everything that is signed counts on it."""
    path = tmp_path / "ca.crt"
    path.write_text(described(key="public key 2048 9"))
    answer = Pki().authority(str(path), key, "ca", 3650)
    assert answer["result"] is False
    assert f"{path} is not of {key}. Restore" in answer["comment"]
    assert path.read_text() == described(key="public key 2048 9")


def test_an_authority_of_another_name_stays(key: str, tmp_path: pathlib.Path) -> None:
    """What it has signed names it."""
    path = tmp_path / "ca.crt"
    path.write_text(described(CN="other"))
    assert Pki().authority(str(path), key, "ca", 3650)["changes"] == {}
    assert path.read_text() == described(CN="other")


def test_an_authority_lasts_until_it_ends(key: str, tmp_path: pathlib.Path) -> None:
    """A new one takes everything with it that the old one has signed."""
    path = tmp_path / "ca.crt"
    path.write_text(described())
    pki = Pki()
    assert pki.authority(str(path), key, "ca", 3650)["changes"] == {}
    pki.x509.ended = True
    assert pki.authority(str(path), key, "ca", 3650)["changes"] == {str(path): "it has ended"}


def test_what_is_no_certificate_stays(key: str, tmp_path: pathlib.Path) -> None:
    """As with keys."""
    path = tmp_path / "ca.crt"
    path.write_text("garbage")
    answer = Pki().authority(str(path), key, "ca", 3650)
    assert answer["result"] is False
    assert "is no certificate" in answer["comment"]
    assert path.read_text() == "garbage"


def test_before_there_is_a_key(tmp_path: pathlib.Path) -> None:
    """A test says what would be; otherwise a certificate needs its key."""
    path, absent = str(tmp_path / "ca.crt"), str(tmp_path / "ca.key")
    answer = Pki().authority(path, absent, "ca", 3650)
    assert (answer["result"], answer["comment"]) == (False, f"{path} needs {absent}: not there")
    foreseen = Pki(test=True)
    assert foreseen.private_key(absent, 2048, "root")["result"] is None
    assert foreseen.authority(path, absent, "ca", 3650)["result"] is None
    assert list(tmp_path.iterdir()) == []
