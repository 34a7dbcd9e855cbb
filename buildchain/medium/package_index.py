"""What the metadata of package repositories says: Debian's ``Packages``, RPM's ``primary.xml``.

Formats: deb822 (deb-control(5)), ``repomd.xml`` and ``primary.xml.gz`` as createrepo_c writes them.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as Xml

from buildchain.project.model import PackageFile

REPO = "{http://linux.duke.edu/metadata/repo}"
COMMON = "{http://linux.duke.edu/metadata/common}"
RPM = "{http://linux.duke.edu/metadata/rpm}"


@dataclass(frozen=True)
class Indexed(PackageFile):
    """A package as an index has it.

    :param license: empty where the index does not say (Debian's never does).
    """

    license: str = ""


def parse_packages(text: str) -> tuple[Indexed, ...]:
    """Read ``Packages``.

    :raises KeyError: a paragraph lacks a field.
    """
    found = []
    for paragraph in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if ": " in line and not line.startswith(" ")
        )
        if fields:
            found.append(
                Indexed(
                    fields["Package"],
                    fields["Version"],
                    fields["Architecture"],
                    fields["Filename"],
                    int(fields["Size"]),
                    fields["SHA256"],
                )
            )
    return tuple(found)


def parse_release(text: str) -> dict[str, tuple[str, int]]:
    """Read the files that a ``Release`` names: path to SHA-256 and size."""
    _, _, listed = text.partition("\nSHA256:\n")
    rows = [line.split() for line in listed.splitlines() if line.startswith(" ")]
    return {path: (digest, int(size)) for digest, size, path in rows}


def parse_repomd(content: bytes) -> dict[str, tuple[str, str]]:
    """Read ``repomd.xml``: kind of metadata to file and SHA-256."""
    found = {}
    for data in Xml.fromstring(content).iter(f"{REPO}data"):  # noqa: S314  (made by this build)
        location, checksum = data.find(f"{REPO}location"), data.find(f"{REPO}checksum")
        assert location is not None
        assert checksum is not None
        found[data.get("type", "")] = (location.get("href", ""), checksum.text or "")
    return found


def parse_primary(content: bytes) -> tuple[Indexed, ...]:
    """Read ``primary.xml.gz``."""
    root = Xml.fromstring(gzip.decompress(content))  # noqa: S314  (made by this build)
    return tuple(_rpms(root))


def _rpms(root: Xml.Element) -> Iterator[Indexed]:
    for package in root.iter(f"{COMMON}package"):
        version = package.find(f"{COMMON}version")
        location = package.find(f"{COMMON}location")
        size = package.find(f"{COMMON}size")
        assert version is not None
        assert location is not None
        assert size is not None
        epoch = "" if version.get("epoch", "0") == "0" else f"{version.get('epoch')}:"
        yield Indexed(
            package.findtext(f"{COMMON}name", ""),
            f"{epoch}{version.get('ver')}-{version.get('rel')}",
            package.findtext(f"{COMMON}arch", ""),
            location.get("href", ""),
            int(size.get("package", "0")),
            package.findtext(f"{COMMON}checksum", ""),
            package.findtext(f"{COMMON}format/{RPM}license", ""),
        )
