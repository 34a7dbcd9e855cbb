"""A clone of the project that can be released by a test key."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from buildchain.project import context as contexts
from tests.integration.checkout import Checkout
from tests.integration.conftest import ROOT, require, run
from tests.integration.test_reproducible import copy_of

TARGET = "2.4.0"


@dataclasses.dataclass(frozen=True)
class Tagged:
    """A clone whose commit is tagged, and the key that releases it."""

    checkout: Checkout
    home: pathlib.Path
    key: str

    def settings(self) -> dict[str, str]:
        return {"GNUPGHOME": str(self.home), "SIGNING_KEY": self.key}

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.checkout.folder / name
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new, 1), encoding="utf-8")

    def git(self, *words: str) -> None:
        somebody = ("-c", "user.name=test", "-c", "user.email=test@invalid")
        run("git", "-C", self.checkout.folder, *somebody, *words)

    def commit(self) -> None:
        """Commit what there is, and let the tag be there."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=release: a test")
        self.git("tag", "--force", TARGET)


@contextlib.contextmanager
def key_home() -> Iterator[pathlib.Path]:
    """Provide a GnuPG home with a key; the socket of its agent has a short path."""
    require("gpg", "gpgv")
    with tempfile.TemporaryDirectory(prefix="mk8s-gpg-", dir="/tmp") as folder:
        argv = ("gpg", "--homedir", folder, "--batch", "--quiet", "--passphrase", "")
        run(*argv, "--quick-generate-key", "test release", "ed25519", "sign", "never")
        try:
            yield pathlib.Path(folder)
        finally:
            run("gpgconf", "--homedir", folder, "--kill", "all")


@contextlib.contextmanager
def tagged(folder: pathlib.Path, home: pathlib.Path) -> Iterator[Tagged]:
    """Clone the project and make of the clone what can be released."""
    cache = contexts.load(ROOT, os.environ).layout.cache
    listed = run("gpg", "--homedir", home, "--batch", "--with-colons", "--list-keys")
    key = next(row for row in listed.splitlines() if row.startswith("fpr:")).split(":")[9]
    made = Tagged(Checkout(copy_of(ROOT, folder / "checkout"), cache), home, key)
    for tag in run("git", "-C", made.checkout.folder, "tag").split():
        made.git("tag", "--delete", tag)
    made.edit("VERSION", "VERSION_SUFFIX=dev", "VERSION_SUFFIX=")
    made.edit("CHANGELOG.md", "(in development)", "(2026-12-01)")
    made.commit()
    try:
        yield made
    finally:
        shutil.rmtree(folder)
