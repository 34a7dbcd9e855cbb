"""The key is elsewhere: what gpg would have written is looked up, or asked for.

Programs: ``gpgv``, ``rpmsign``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import process
from buildchain.core.errors import CommandError, SigningError, WaitingError
from buildchain.signatures import gpg, proof
from buildchain.signatures.folder import Folder
from buildchain.signatures.wanted import Wanted

FRESH = re.compile(r"^\.(.+)\.new$")
# Stands in for gpg where rpmsign calls it.
ANSWER_RPM = Path(__file__).with_name("answer-rpm.sh")


@dataclass(frozen=True)
class Elsewhere:
    """Signatures out of a folder, proven before they are used.

    :param ring: public keys that they are by, binary.
    """

    folder: Folder
    ring: Path

    def label(self, file: Path) -> str:
        """Return what a file is for who reads the table: its place in the build root."""
        build = self.folder.path.parent
        if build not in file.parents or build / "tmp" in file.parents:
            return file.name
        # What is being made lies beside the place that it takes (repositories.replaced).
        parts = [FRESH.sub(r"\1", part) for part in file.relative_to(build).parts]
        return "/".join(parts)

    def signatures(
        self, what: str, content: bytes, manners: Sequence[tuple[str, str]], date: int
    ) -> list[bytes]:
        """Return signatures of the same bytes.

        :param what: as :meth:`label` has it.
        :param manners: kind and fingerprint of each.
        :raises WaitingError: some are not there; they are asked for.
        :raises SigningError: one that is there does not hold.
        """
        sha256 = hashlib.sha256(content).hexdigest()
        found: list[bytes] = []
        missing: list[Wanted] = []
        for kind, key in manners:
            wanted = Wanted(sha256, kind, date, key, what)
            answer = self.folder.answer(wanted)
            if answer is None:
                self.folder.ask(wanted, content)
                missing.append(wanted)
            else:
                found.append(self._proven(wanted, content, answer))
        if missing:
            raise WaitingError.of({one.identity: one.what for one in missing})
        return found

    def _proven(self, wanted: Wanted, content: bytes, answer: bytes) -> bytes:
        signature, complaint = proof.accept(wanted, content, answer, self.ring)
        if complaint:
            raise SigningError(
                f"the signature of {wanted.what} in {self.folder.answers} {complaint}",
                solution=f"Remove {self.folder.answers} and import the answers again.",
            )
        return signature

    def sign_rpms(self, rpms: Sequence[Path], key: str, date: int, scratch: Path) -> None:
        """Sign RPM packages in place.

        :raises WaitingError: signatures of some are not there.
        :raises SigningError: rpmsign fails for another reason.
        """
        missing: dict[str, str] = {}
        for rpm in rpms:
            try:
                self._sign_rpm(rpm, key, date, scratch)
            except WaitingError as error:
                missing |= error.wanted
        if missing:
            raise WaitingError.of(missing)

    def _sign_rpm(self, rpm: Path, key: str, date: int, scratch: Path) -> None:
        # What rpmsign gives to sign is its own business: the first call tells, the second has it.
        header, signature = scratch / "header", scratch / "signature"
        for path in (header, signature):
            path.unlink(missing_ok=True)
        told = self._call(rpm, key, scratch)
        if not header.is_file():
            raise SigningError(f"rpmsign signs nothing of {rpm.name}", details=told)
        [answer] = self.signatures(self.label(rpm), header.read_bytes(), [("detached", key)], date)
        signature.write_bytes(answer)
        if told := self._call(rpm, key, scratch):
            raise SigningError(f"{rpm.name} cannot be signed", details=told)

    def _call(self, rpm: Path, key: str, scratch: Path) -> str:
        """Call rpmsign and return what it complains of."""
        argv = gpg.argv_for_answered_rpm(key, rpm)
        try:
            process.run(argv, cwd=ANSWER_RPM.parent, env={"SCRATCH": str(scratch)})
        except CommandError as error:
            return error.details or error.reason
        return ""
