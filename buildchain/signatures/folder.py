"""What is wanted and what was answered, in ``_build/signatures``.

On disk: ``wanted/<identity>`` with the line of the table, ``files/<SHA-256>`` with the bytes to
sign, ``answers/<SHA-256 of the batch>/<identity>`` with signatures. A batch appears whole.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.receipt import write_whole
from buildchain.signatures import wanted as table
from buildchain.signatures.wanted import Wanted

# Two steps may ask for the same at the same time.
_WRITING = threading.Lock()


@dataclass(frozen=True)
class Folder:
    """The correspondence of a build with who has the key."""

    path: Path

    @property
    def answers(self) -> Path:
        return self.path / "answers"

    def begin(self) -> None:
        """Forget what was wanted: a run asks for all that it wants."""
        for name in ("wanted", "files"):
            shutil.rmtree(self.path / name, ignore_errors=True)

    def ask(self, wanted: Wanted, content: bytes) -> None:
        """Write down that a signature is wanted."""
        with _WRITING:
            write_whole(self.path / "files" / wanted.sha256, content)
            write_whole(self.path / "wanted" / wanted.identity, f"{wanted.line}\n")

    def wanted(self) -> list[Wanted]:
        """Return what was asked for since :meth:`begin`, sorted by what it is."""
        found = [
            table.parse(path.read_text(encoding="utf-8").rstrip("\n"))
            for path in (self.path / "wanted").glob("[!.]*")
        ]
        return sorted(found, key=lambda wanted: (wanted.what, wanted.identity))

    def content(self, wanted: Wanted) -> bytes:
        """Return the bytes that a signature is wanted of."""
        return (self.path / "files" / wanted.sha256).read_bytes()

    def answer(self, wanted: Wanted) -> bytes | None:
        """Return the signature, if it was brought."""
        for path in sorted(self.answers.glob(f"[!.]*/{wanted.identity}")):
            return path.read_bytes()
        return None

    def add(self, signatures: Mapping[str, bytes]) -> None:
        """Keep signatures, by their identity: all of them in one rename."""
        digest = hashlib.sha256()
        for name, content in sorted(signatures.items()):
            digest.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
        batch, part = self.answers / digest.hexdigest(), self.answers / ".part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name, content in signatures.items():
            (part / name).write_bytes(content)
        if batch.exists():
            shutil.rmtree(part)
        else:
            part.rename(batch)
