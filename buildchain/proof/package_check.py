"""Packages of a medium: each where its repository's index has it, at the version that is said."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from buildchain.medium import package_index
from buildchain.medium.package_index import Indexed
from buildchain.proof.medium_check import Check, Versions, some
from buildchain.proof.states import VERSIONS, Machine


def repositories_of(check: Check) -> dict[str, dict[str, str]]:
    """Return the repositories there are: folder to package to version; want all their files."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(check.paths):
        if path.endswith("/Release") and path.startswith("packages/debian/"):
            found |= _apt(check, path)
        elif path.endswith("/repodata/repomd.xml"):
            found |= _rpm(check, path)
    # A repository without its index is found by what is left of it.
    for path in sorted(check.paths):
        if path.endswith((".deb", ".rpm")):
            folder = "/".join(path.split("/")[:3])
            index = "repodata/repomd.xml" if path.endswith(".rpm") else "dists/*/Release"
            if folder not in found:
                check.problem(f"{folder}/{index} is not on the medium")
                found[folder] = {}
    return found


def _apt(check: Check, release: str) -> dict[str, dict[str, str]]:
    dist = posixpath.dirname(release)
    folder = posixpath.dirname(posixpath.dirname(dist))
    for name in ("Release", "Release.gpg", "InRelease"):
        check.want(f"{dist}/{name}", "APT")
    packages: tuple[Indexed, ...] = ()
    for name in package_index.parse_release(check.text(release) or ""):
        check.want(f"{dist}/{name}", release)
        if name.endswith("/Packages"):
            packages += package_index.parse_packages(check.text(f"{dist}/{name}") or "")
    return {folder: _indexed(check, folder, packages, f"{dist}/…/Packages")}


def _rpm(check: Check, repomd: str) -> dict[str, dict[str, str]]:
    folder = posixpath.dirname(posixpath.dirname(repomd))
    check.want(repomd, "dnf")
    check.want(f"{repomd}.asc", "dnf")
    packages: tuple[Indexed, ...] = ()
    for kind, (file, _) in package_index.parse_repomd(check.contents.read(repomd)).items():
        path = f"{folder}/{file}"
        check.want(path, repomd)
        if kind == "primary" and path in check.paths:
            packages = package_index.parse_primary(check.contents.read(path))
    return {folder: _indexed(check, folder, packages, repomd)}


def _indexed(check: Check, folder: str, packages: Iterable[Indexed], index: str) -> dict[str, str]:
    found = {}
    for package in packages:
        check.want(f"{folder}/{package.file}", index)
        found[package.name] = package.version
    return found


def compare(
    check: Check, versions: Versions, repositories: Mapping[str, Mapping[str, str]]
) -> None:
    """Compare what states install, and what ``versions.json`` says, with the repositories."""
    for folder, there in repositories.items():
        for name, version in sorted(versions.packages.get(folder.split("/")[1], {}).items()):
            if there.get(name) != version:
                check.problem(
                    f"{VERSIONS} says {name} {version}, {folder} has {there.get(name, 'none')}"
                )
    for family in sorted(versions.packages.keys()):
        if not any(folder.startswith(f"packages/{family}/") for folder in repositories):
            check.problem(f"there is no repository in packages/{family}, {VERSIONS} names packages")
    for (machine, name, version), origins in check.wanted.packages.items():
        if not _can_be_installed(check, repositories, machine, name, version):
            check.problem(
                f"{some(origins)} installs {' '.join((name, version)).strip()} on {machine.family} "
                f"{machine.release}, which is neither on the medium nor part of the system"
            )


def _can_be_installed(
    check: Check,
    repositories: Mapping[str, Mapping[str, str]],
    machine: Machine,
    name: str,
    version: str,
) -> bool:
    if name in check.given.get(machine.family, ()):
        return True
    folders = [folder for folder in repositories if folder.split("/")[1] == machine.family]
    own = [folder for folder in folders if folder.endswith(f"el{machine.release}")]
    versions = [repositories[folder].get(name) for folder in own or folders]
    return any(found and version in {"", found} for found in versions)
