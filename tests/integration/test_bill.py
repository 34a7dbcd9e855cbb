"""The bills of materials of the ISO that was built."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from buildchain.core import listing

pytestmark = pytest.mark.integration

# What tells of the others and of the bills themselves; signatures of it among them.
SELF_MADE = ("MANIFEST", "SHA256SUM", "sbom/")


@pytest.fixture(scope="module")
def files(iso_tree: pathlib.Path) -> dict[str, str]:
    """Return the files of the ISO that a bill has to name, with their SHA-256."""
    text = (iso_tree / listing.NAME).read_text(encoding="utf-8")
    found = listing.parse(text, "the ISO").files
    return {path: e.digest for path, e in found.items() if not path.startswith(SELF_MADE)}


def load(path: pathlib.Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_spdx_is_valid_and_has_every_file(iso_tree: pathlib.Path, files: dict[str, str]) -> None:
    path = iso_tree / "sbom" / "spdx.json"
    assert validate_full_spdx_document(parse_file(str(path))) == []
    named = {
        package["packageFileName"].removeprefix("./"): package["checksums"][0]["checksumValue"]
        for package in load(path)["packages"]
        if "packageFileName" in package
    }
    assert named == files


def test_cyclonedx_is_valid_and_has_every_file(
    iso_tree: pathlib.Path, files: dict[str, str]
) -> None:
    path = iso_tree / "sbom" / "cyclonedx.json"
    text = path.read_text(encoding="utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    named = {
        entry["value"]: component["hashes"][0]["content"]
        for component in load(path)["components"]
        for entry in component.get("properties", ())
        if entry["name"] == "metalk8s:file"
    }
    assert named == files


def test_what_is_in_images_is_named(iso_tree: pathlib.Path) -> None:
    """The packages of the archive that stand in an image, by the lock on the ISO."""
    locked = load(iso_tree / "lock" / "debian.lock")
    found = load(iso_tree / "sbom" / "cyclonedx.json")
    names = {c["bom-ref"]: c["name"] for c in found["components"]}
    inside = {entry["ref"]: set(entry.get("dependsOn", ())) for entry in found["dependencies"]}
    [image] = [
        c["bom-ref"]
        for c in found["components"]
        if c["type"] == "container" and c["name"] == "nginx"
    ]
    packages = {p["name"] for name in ("base", "image-nginx") for p in locked[name]["packages"]}
    assert {names[ref] for ref in inside[image] if not names[ref].startswith("images/")} == packages
    [master] = [c["bom-ref"] for c in found["components"] if c["name"] == "salt-master"]
    assert {"metalk8s-salt", "metalk8s-salt-master"} <= {names[ref] for ref in inside[master]}
