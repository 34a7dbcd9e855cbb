"""RPMs with nothing in them that stand for other people's: one rpmbuild for each architecture."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass

from tests.integration.conftest import require, run


@dataclass(frozen=True)
class Stub:
    """A package with one small file.

    :param size: bytes in it that cannot be compressed.
    """

    name: str
    version: str = "1"
    release: str = "1"
    epoch: int = 0
    architecture: str = "noarch"
    provides: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    recommends: tuple[str, ...] = ()
    size: int = 0

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}-{self.release}.{self.architecture}.rpm"

    def section(self) -> str:
        """Return its part of a spec file."""
        tags = [
            f"%package -n {self.name}",
            "Summary: stands for another",
            f"Version: {self.version}",
            f"Release: {self.release}",
            *([f"Epoch: {self.epoch}"] if self.epoch else []),
            *(["BuildArch: noarch"] if self.architecture == "noarch" else []),
            *(f"Provides: {what}" for what in self.provides),
            *(f"Requires: {what}" for what in self.requires),
            *(f"Recommends: {what}" for what in self.recommends),
            f"%description -n {self.name}",
            "Stands for another.",
            f"%files -n {self.name}",
            f"/usr/share/stubs/{self.name}",
        ]
        return "\n".join(tags)


def build(folder: pathlib.Path, stubs: Iterable[Stub]) -> list[pathlib.Path]:
    """Build packages into ``folder``, unsigned, and return them."""
    require("rpmbuild")
    by_target: dict[str, list[Stub]] = {}
    for stub in stubs:
        target = "x86_64" if stub.architecture == "noarch" else stub.architecture
        by_target.setdefault(target, []).append(stub)
    folder.mkdir(parents=True, exist_ok=True)
    for target, group in by_target.items():
        with tempfile.TemporaryDirectory() as scratch:
            _build(pathlib.Path(scratch), folder, target, group)
    return [folder / stub.file for group in by_target.values() for stub in group]


def _build(scratch: pathlib.Path, folder: pathlib.Path, target: str, stubs: list[Stub]) -> None:
    files = "\n".join(
        f"(echo {s.name}; head -c {s.size} /dev/urandom) > %{{buildroot}}/usr/share/stubs/{s.name}"
        for s in stubs
    )
    spec = scratch / "stubs.spec"
    spec.write_text(
        "Name: stubs\nVersion: 1\nRelease: 1\nSummary: stubs\nLicense: Apache-2.0\n"
        "AutoReqProv: no\n%description\nStubs.\n"
        f"%install\nmkdir -p %{{buildroot}}/usr/share/stubs\n{files}\n"
        + "\n".join(stub.section() for stub in stubs)
        + "\n",
        encoding="utf-8",
    )
    defines = {
        "_topdir": scratch,
        "_rpmdir": folder,
        "_rpmfilename": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
        "__os_install_post": "%{nil}",
    }
    words = [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
    run("rpmbuild", "-bb", "--quiet", "--target", target, *words, spec)


def spoil(path: pathlib.Path) -> None:
    """Change one byte of a package's payload."""
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
