"""The medium that bootstrap.sh is on, and the other archives of the configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MOUNTS = "/srv/scality"
# ISO 9660: the first volume descriptor is sector 16 (of 2048 bytes); "CD001" stands after one byte,
# the volume id is 32 bytes from byte 40.
DESCRIPTOR, IDENTIFIER, VOLUME = 16 * 2048, b"CD001", slice(40, 72)


@dataclass(frozen=True)
class Port:
    """A TCP port that something of ours listens on.

    :param what: listens there.
    :param program: what the kernel calls that, cut off nowhere.
    """

    number: int
    what: str
    program: str


@dataclass(frozen=True)
class Medium:
    """The verified tree that is installed from."""

    root: Path

    @property
    def product(self) -> dict[str, str]:
        """``product.txt``."""
        lines = (self.root / "product.txt").read_text(encoding="utf-8").splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    @property
    def version(self) -> str:
        return self.product["VERSION"]

    @property
    def place(self) -> str:
        """Folder where a machine has this medium."""
        return place(self.version)

    @property
    def date(self) -> float:
        """When it was made, seconds since 1970."""
        return (self.root / "product.txt").stat().st_mtime

    @property
    def versions(self) -> dict[str, Any]:
        """What the states install."""
        path = self.root / "salt" / "metalk8s" / "versions.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(document, dict)
        return document

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the states, with their defaults."""
        return self._parameters("defaults.yaml")

    def family_parameters(self, family: str) -> dict[str, Any]:
        """Return what a family of operating systems has other parameters for."""
        return self._parameters(f"os_family/{family}.yaml")

    @property
    def ports(self) -> list[Port]:
        """What the states let listen; protocols without ports are nobody's to take."""
        table = [row for row in self._parameters("ports.yaml").values() if "number" in row]
        return [Port(row["number"], row["what"], row["program"]) for row in table]

    def _parameters(self, name: str) -> dict[str, Any]:
        path = self.root / "salt" / "metalk8s" / "parameters" / name
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert isinstance(document, dict)
        return document


def place(version: str) -> str:
    """Return the folder where a machine has the medium of a version."""
    return f"{MOUNTS}/metalk8s-{version}"


def volume(path: Path) -> tuple[str, str]:
    """Return name and version in the volume id of an ISO image.

    :raises ValueError: it is none, or none with such an id.
    :raises OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        stream.seek(DESCRIPTOR)
        descriptor = stream.read(2048)
    if descriptor[1:6] != IDENTIFIER:
        raise ValueError("is no ISO 9660 image")
    text = descriptor[VOLUME].decode("ascii", "replace").strip()
    name, _, version = text.rpartition(" ")
    if not name:
        raise ValueError(f"is an image of something else ({text})")
    return name, version
