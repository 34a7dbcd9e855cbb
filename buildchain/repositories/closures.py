"""Closed sets: a solver installs every role from our repositories alone.

Programs: ``apt-get``, ``rpm``. Nothing is installed and nothing leaves the machine. What is missing
is named, with the package that wants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from buildchain.core import process, receipt
from buildchain.core.errors import CommandError, ContentError
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.debian import apt
from buildchain.debian.deb_repository import COMPONENT
from buildchain.packages import rpm
from buildchain.project.model import RedhatFile


def check_debian(
    layout: Layout,
    folder: Path,
    keyring: Path,
    suite: str,
    sets: Mapping[str, Sequence[str]],
) -> Made:
    """Solve the installation of every set onto the floor, from one repository.

    :param folder: the repository.
    :param sets: names of packages, by what they are for.
    :raises ContentError: naming everything that is missing, or a signature that is wrong.
    """
    with layout.scratch("closure-") as scratch:
        root = Path(scratch)
        for name in ("lists/partial", "archives/partial"):
            (root / name).mkdir(parents=True)
        source = apt.repository_source(folder, suite, COMPONENT, keyring)
        write_whole(root / "debian.sources", source)
        configuration = root / "apt.conf"
        text = apt.configuration(root, layout.floor_status, root / "archives")
        write_whole(configuration, text)
        try:
            process.run(apt.argv_for_update(configuration))
        except CommandError as error:
            raise ContentError(
                f"APT refuses the repository {folder}", details=error.details
            ) from error
        problems: dict[str, list[str]] = {}
        for purpose, names in sets.items():
            for problem in _unmet(configuration, names):
                problems.setdefault(problem, []).append(purpose)
    _raise(folder, problems)
    return Made()


def _unmet(configuration: Path, names: Sequence[str]) -> tuple[str, ...]:
    try:
        process.run(apt.argv_for_simulation(configuration, names))
    except CommandError as error:
        unmet = apt.parse_unmet(error.details)
        if not unmet:
            raise
        return unmet
    return ()


def check_redhat(folder: Path, minimal: Iterable[str], sets: Mapping[str, Sequence[str]]) -> Made:
    """Check that the RPMs of a repository need each other and the minimal OS only.

    :param minimal: names that an EL machine provides.
    :raises ContentError: naming everything that is missing.
    """
    packages = sorted(folder.glob("*.rpm"))
    provides = rpm.parse_query(process.run(rpm.argv_for_query("PROVIDE", packages)))
    requires = rpm.parse_query(process.run(rpm.argv_for_query("REQUIRE", packages)))
    known = {what for _, what in provides} | set(minimal)
    problems: dict[str, list[str]] = {}
    for name, what in requires:
        if not known & {what, rpm.without_versions(what)}:
            problems.setdefault(f"{name} needs {what}", []).append("every set")
    _absent(known, sets, problems)
    _raise(folder, problems)
    return Made()


def check_redhat_closure(
    folder: Path, files: Iterable[RedhatFile], sets: Mapping[str, Sequence[str]]
) -> Made:
    """Check that a repository has every package that the solver found, and those of every role.

    That nothing else is needed is what the solver proved when it found them, for the same packages
    of ours: the lock holds both.

    :param files: other people's packages.
    :raises ContentError: naming everything that is missing or not what was locked.
    """
    problems: dict[str, list[str]] = {}
    for file in files:
        place = folder / file.file
        if not place.is_file():
            problems[f"no package {file.name} ({file.file})"] = ["every set"]
        elif receipt.sha256(place) != file.sha256:
            problems[f"{file.file} is not the package that was locked"] = ["every set"]
    packages = sorted(folder.glob("*.rpm"))
    provides = rpm.parse_query(process.run(rpm.argv_for_query("PROVIDE", packages)))
    known = {what for _, what in provides}
    _absent(known, sets, problems)
    _raise(folder, problems)
    return Made()


def _absent(
    known: set[str], sets: Mapping[str, Sequence[str]], problems: dict[str, list[str]]
) -> None:
    """Add the packages of the sets that nothing provides."""
    for purpose, names in sets.items():
        for name in names:
            if name not in known:
                problems.setdefault(f"no package {name}", []).append(purpose)


def _raise(folder: Path, problems: Mapping[str, Sequence[str]]) -> None:
    if problems:
        listed = "; ".join(
            f"{problem} (for {', '.join(dict.fromkeys(purposes))})"
            for problem, purposes in problems.items()
        )
        raise ContentError(
            f"the packages in {folder} are not complete: {listed}",
            solution="Add what is missing to the roles in the profile's profile.toml "
            "(Debian) or redhat.toml (EL; or to its minimal OS, if every machine has it).",
        )
