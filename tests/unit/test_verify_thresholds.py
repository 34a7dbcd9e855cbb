"""Whose signatures ``verify.sh`` counts: random rings against what a few lines of Python say.

``METALK8S_RINGS`` says how many rings are tried (default: 40; the soak tries 1000), and
``METALK8S_SEED`` which.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from buildchain.core import listing
from buildchain.core.listing import Entry

RINGS = int(os.environ.get("METALK8S_RINGS", "40"))
SEED = int(os.environ.get("METALK8S_SEED", "1"))
BAD_SIGNATURE, UNKNOWN_KEY = 10, 11
NAMES = "ABCDEF"
# Signs with a subkey; its primary key is who it is.
WITH_SUBKEY = "B"


@dataclasses.dataclass(frozen=True)
class Approval:
    """A signature of a file of keys.

    :param replaced: key that it names as replaced, or none.
    :param is_stale: it is of another file.
    """

    signer: str
    replaced: str = ""
    is_stale: bool = False


@dataclasses.dataclass(frozen=True)
class Introduction:
    """A file of keys that a medium brings, and its signatures."""

    keys: str
    approvals: tuple[Approval, ...]


@dataclasses.dataclass(frozen=True)
class Ring:
    """Who is given with ``--key`` (a file each), how many are wanted, who signed, who is new."""

    given: tuple[str, ...]
    wanted: int
    signers: str
    introductions: tuple[Introduction, ...] = ()
    forged: str = ""


def expected(ring: Ring) -> int:
    """Return the exit status.

    A holder of a given key is there once: by a signature of that key, or by one of a key that took
    its place. It takes a place when as many given keys as are wanted say so, the replaced one among
    them, and when it takes no other; files of several keys, and files with a bad signature by a
    given key, introduce nobody.
    """
    given = set("".join(ring.given))
    if given & set(ring.forged):
        return BAD_SIGNATURE
    places: dict[str, set[str]] = {}
    for introduction in ring.introductions:
        stale = {each.signer for each in introduction.approvals if each.is_stale}
        if len(introduction.keys) != 1 or stale & given:
            continue
        said: dict[str, set[str]] = {}
        for approval in introduction.approvals:
            if approval.signer in given:
                said.setdefault(approval.replaced or approval.signer, set()).add(approval.signer)
        for replaced, approving in said.items():
            if replaced in approving and len(approving) >= ring.wanted:
                places.setdefault(introduction.keys, set()).add(replaced)
    present = given & set(ring.signers)
    for key in set(ring.signers) - given - set(ring.forged):
        if len(places.get(key, ())) == 1:
            present |= places[key]
    return 0 if len(present) >= ring.wanted else UNKNOWN_KEY


class Holders:
    """Keys by name, in one GnuPG home, and what they sign."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "gnupg"
        self.home.mkdir(mode=0o700)
        self.fingerprints = {name: self._make(name) for name in NAMES}

    def _make(self, name: str) -> str:
        self.gpg("--passphrase", "", "--quick-gen-key", name, "ed25519", "sign", "never")
        listed = self.gpg("--list-keys", "--with-colons", f"={name}").decode().splitlines()
        fingerprint = next(line.split(":")[9] for line in listed if line.startswith("fpr:"))
        if name == WITH_SUBKEY:
            add = ("--quick-add-key", fingerprint, "ed25519", "sign", "never")
            self.gpg("--passphrase", "", *add)
        (self.folder / f"{name}.gpg").write_bytes(self.gpg("--export", fingerprint))
        return fingerprint

    def gpg(self, *words: str | Path) -> bytes:
        """Run gpg and return what it prints."""
        argv = ["gpg", "--homedir", self.home, "--batch", "--quiet", "--no-auto-check-trustdb"]
        return subprocess.run([*argv, *words], capture_output=True, check=True).stdout

    def ring(self, names: str) -> Path:
        """Return a file of keys."""
        path = self.folder / f"{names}.gpg"
        if not path.exists():
            path.write_bytes(b"".join(self.ring(name).read_bytes() for name in names))
        return path

    def sign(self, signers: str, file: Path) -> bytes:
        """Return a signature by each."""
        users = [word for name in signers for word in ("--local-user", self.fingerprints[name])]
        return self.gpg(*users, "--output", "-", "--detach-sign", file) if signers else b""

    def approve(self, approval: Approval, keys: str) -> bytes:
        """Return a signature of a file of keys; each is made once."""
        path = self.folder / f"{keys}-{approval.signer}-{approval.replaced}-{approval.is_stale}"
        if not path.exists():
            replaced = self.fingerprints.get(approval.replaced, "")
            notation = ["--set-notation", f"replaces@metalk8s={replaced}"] if replaced else []
            user = ["--local-user", self.fingerprints[approval.signer]]
            other = NAMES[(NAMES.index(keys[0]) + 1) % len(NAMES)]
            file = self.ring(other if approval.is_stale else keys)
            path.write_bytes(self.gpg(*user, *notation, "--output", "-", "--detach-sign", file))
        return path.read_bytes()

    def verdict(self, script: Path, ring: Ring, folder: Path) -> tuple[int, str]:
        """Make a medium, and return what the script finds: status and words."""
        (folder / "keys").mkdir(parents=True)
        for number, introduction in enumerate(ring.introductions):
            file = folder / "keys" / f"{number}.gpg"
            file.write_bytes(self.ring(introduction.keys).read_bytes())
            signatures = (self.approve(each, introduction.keys) for each in introduction.approvals)
            file.with_name(f"{file.name}.sig").write_bytes(b"".join(signatures))
        return self._verify(script, ring, folder)

    def _verify(self, script: Path, ring: Ring, folder: Path) -> tuple[int, str]:
        entries = [Entry("keys", "-", "d", 0o755, 0)]
        (folder / "keys").chmod(0o755)
        folder.chmod(0o755)
        for file in (folder / "keys").iterdir():
            file.chmod(0o644)
            content = file.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            entries.append(Entry(f"keys/{file.name}", digest, "f", 0o644, len(content)))
        manifest = folder / listing.NAME
        text = listing.text({"name": "Demo", "version": "2.9.0"}, entries)
        manifest.write_text(f"{text}#forged\n")
        forged = self.sign(ring.forged, manifest)
        manifest.write_text(text)
        signature = manifest.with_name(f"{manifest.name}.sig")
        signature.write_bytes(self.sign(ring.signers, manifest) + forged)
        keys = [word for names in ring.given for word in ("--key", self.ring(names))]
        argv = ["sh", script, *keys, "--signatures", str(ring.wanted), folder]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def holders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holders]:
    """Return six people with a key each."""
    made = Holders(tmp_path_factory.mktemp("holders"))
    yield made
    subprocess.run(["gpgconf", "--homedir", made.home, "--kill", "all"], check=True)


def by(signers: str, replaced: str = "") -> tuple[Approval, ...]:
    """Return a signature by each, all for the same place."""
    return tuple(Approval(signer, replaced) for signer in signers)


@pytest.mark.parametrize(
    ("ring", "status"),
    [
        (Ring(("A", "B"), 2, "AB"), 0),
        (Ring(("AB",), 2, "AB"), 0),
        (Ring(("A", "A"), 2, "A"), UNKNOWN_KEY),
        # The attacks of the review: one stolen key, and keys of the attacker's.
        (Ring(("A", "B"), 2, "AC", (Introduction("C", by("A")),)), UNKNOWN_KEY),
        (Ring(("A", "B"), 3, "ACD", (Introduction("CD", by("A")),)), UNKNOWN_KEY),
        (Ring(("A",), 1, "C", (Introduction("CD", by("A")),)), UNKNOWN_KEY),
        (Ring(("A",), 1, "C", (Introduction("C", by("A")),)), 0),
        # The new key and the old one are one holder's.
        (Ring(("A", "B"), 2, "AC", (Introduction("C", by("AB", "A")),)), UNKNOWN_KEY),
        (Ring(("A", "B"), 2, "BC", (Introduction("C", by("AB", "A")),)), 0),
        (Ring(("A", "B"), 2, "AC", (Introduction("C", by("AB", "B")),)), 0),
        # Two new keys of one holder's are one, too; two of two are two.
        (
            Ring(
                ("A", "B"),
                2,
                "CD",
                (Introduction("C", by("AB", "A")), Introduction("D", by("AB", "A"))),
            ),
            UNKNOWN_KEY,
        ),
        (
            Ring(
                ("A", "B"),
                2,
                "CD",
                (Introduction("C", by("AB", "A")), Introduction("D", by("AB", "B"))),
            ),
            0,
        ),
        # One key does not get two places, whatever the files are called.
        (
            Ring(
                ("A", "B"),
                2,
                "C",
                (Introduction("C", by("AB", "A")), Introduction("C", by("AB", "B"))),
            ),
            UNKNOWN_KEY,
        ),
        # Who says nothing means the own place: nobody has two approvals then.
        (Ring(("A", "B"), 2, "BC", (Introduction("C", by("AB")),)), UNKNOWN_KEY),
        # The one that is replaced has to agree, and to be given.
        (Ring(("A", "B", "E"), 2, "CE", (Introduction("C", by("BE", "A")),)), UNKNOWN_KEY),
        (Ring(("A", "B"), 2, "AC", (Introduction("C", by("AB", "F")),)), UNKNOWN_KEY),
        # An introduced key introduces nobody.
        (
            Ring(("A",), 1, "D", (Introduction("C", by("A")), Introduction("D", by("C")))),
            UNKNOWN_KEY,
        ),
        (Ring(("A",), 1, "C", (Introduction("C", (Approval("A", is_stale=True),)),)), UNKNOWN_KEY),
        # gpgv ends at the first bad signature, wherever it is.
        (
            Ring(
                ("A", "B"), 1, "C", (Introduction("C", (*by("A"), Approval("B", is_stale=True))),)
            ),
            UNKNOWN_KEY,
        ),
        (Ring(("A",), 1, "C", (Introduction("C", by("A")),), forged="C"), UNKNOWN_KEY),
        (Ring(("A", "B"), 1, "A", forged="B"), BAD_SIGNATURE),
        (Ring(("A",), 1, "A", forged="C"), 0),
    ],
)
def test_rings(holders, root, tmp_path, ring, status):
    assert expected(ring) == status
    found, said = holders.verdict(root / "salt/scripts/verify.sh", ring, tmp_path / "medium")
    assert found == status, said
    assert ("good: " in said) == (status == 0)


def draw(rng: random.Random) -> Ring:
    """Return a ring; the given, the stolen and the new overlap often."""

    def some(most: int, least: int = 0, out_of: str = NAMES) -> str:
        return "".join(rng.sample(out_of, rng.randint(least, min(most, len(out_of)))))

    given = some(3, 1)
    parts = (given,) if rng.random() < 0.2 else tuple(given)
    wanted = rng.choice([1, 2, 2, 3])
    introductions = []
    for _ in range(rng.randint(0, 3)):
        strangers = "".join(sorted(set(NAMES) - set(given))) if rng.random() < 0.8 else NAMES
        keys = some(2, 2) if rng.random() < 0.15 else rng.choice(strangers)
        place = rng.choice(["", *NAMES[:2], *3 * given])
        approvals = [
            Approval(
                signer,
                place if rng.random() < 0.9 else rng.choice(["", *NAMES]),
                is_stale=rng.random() < 0.05,
            )
            for signer in (given if rng.random() < 0.6 else some(4))
        ]
        introductions.append(Introduction(keys, tuple(approvals)))
    signers = set(some(3, 0, given if rng.random() < 0.8 else NAMES))
    signers |= {key for each in introductions for key in each.keys if rng.random() < 0.8}
    forged = some(1) if rng.random() < 0.1 else ""
    return Ring(parts, wanted, "".join(sorted(signers)), tuple(introductions), forged)


@pytest.mark.parametrize("rings", [RINGS, pytest.param(1000, marks=pytest.mark.soak)])
def test_random_rings(holders, root, tmp_path, rings):
    """No verdict is wrong; enough of them are of either kind, and enough need a successor."""
    script = root / "salt/scripts/verify.sh"
    rng = random.Random(SEED)
    wrong, statuses, successors = [], [], 0
    for number in range(rings):
        ring = draw(rng)
        wanted = expected(ring)
        found, said = holders.verdict(script, ring, tmp_path / str(number))
        if found != wanted:
            wrong.append((ring, wanted, found, said))
        statuses.append(wanted)
        alone = dataclasses.replace(ring, introductions=())
        successors += wanted == 0 and expected(alone) != 0
    print(f"{rings} rings: {_counts(statuses)}, {successors} accepted for a successor")
    assert not wrong, wrong[:3]
    assert statuses.count(0) >= rings // 6
    assert statuses.count(UNKNOWN_KEY) >= rings // 6
    assert successors >= rings // 40


def _counts(statuses: Sequence[int]) -> dict[int, int]:
    return {key: len(list(group)) for key, group in itertools.groupby(sorted(statuses))}
