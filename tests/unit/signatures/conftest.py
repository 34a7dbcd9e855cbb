"""Release keys that are somewhere else, and a build that has their public halves."""

import dataclasses
import subprocess
import tempfile
from pathlib import Path

import pytest

from buildchain.signatures import gpg

SINCE = 1735689600  # 2025-01-01
EPOCH = 1750000000


@dataclasses.dataclass
class Office:
    """Machine B: a GnuPG home with secret keys, and nothing else."""

    home: Path
    keys: tuple[str, ...]

    def gpg(self, *words):
        argv = ["gpg", "--homedir", self.home, "--batch", "--no-tty", *words]
        return subprocess.run(argv, check=True, capture_output=True).stdout

    def export(self, path, *keys):
        path.write_bytes(self.gpg("--export", *(keys or self.keys)))
        return path


@pytest.fixture(scope="session")
def office(require):
    """Provide a home with two release keys and a stranger's."""
    require("gpg")
    with tempfile.TemporaryDirectory(prefix="mk8s-test-", dir="/tmp") as folder:
        home = Path(folder)
        found = Office(home, ())
        for name in ("first", "second", "stranger"):
            found.gpg("--faked-system-time", f"{SINCE}!", "--passphrase", "",
                      "--quick-generate-key", name, "rsa2048", "sign", "never")  # fmt: skip
        listing = found.gpg("--list-secret-keys", "--with-colons").decode()
        parts = listing.split("sec:")[1:]
        found.keys = tuple(gpg.parse_fingerprint(f"sec:{part}") for part in parts)
        try:
            yield found
        finally:
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)


@pytest.fixture
def away(layout, office, tmp_path):
    """Return the layout of a build whose key is elsewhere."""
    ring = office.export(tmp_path / "public.gpg", *office.keys[:2])
    return dataclasses.replace(layout, public_keys=ring)
