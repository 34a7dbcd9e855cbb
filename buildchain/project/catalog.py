"""The pins, read once and checked: unknown keys are errors, every problem is named at once."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from buildchain.core import reference
from buildchain.core.errors import PinError
from buildchain.project.model import (
    Image,
    Package,
    PulledImage,
    RedhatRepository,
    Source,
    Tool,
    Version,
)

Record = TypeVar("Record")
OURS = "metalk8s"  # what our own repository is called
RELEASE = "$releasever"  # as dnf writes it
REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(/[a-z0-9.]+)?")
# Who installs what: the spec's roles, in the order in which a site grows.
ROLES = ("bootstrap", "master", "etcd", "node", "infra")
# Tables of profile.toml and of redhat.toml, their keys and the types of the values ("list": of
# strings, "roles": a table with a list for each role, "repositories": one with a table for each).
PROFILE_KEYS = {
    "debian": {"suite": "str", "architecture": "str", "keyring": "str", "roles": "roles"},
    "content": {"epoch": "int"},
    "base": {"packages": "list"},
    "builder": {"packages": "list"},
    "testbed": {"packages": "list"},
    "testbed-pods": {"packages": "list"},
}
REDHAT_KEYS = {
    "redhat": {
        "releases": "list",
        "minimal": "list",
        "roles": "roles",
        "repositories": "repositories",
    },
}


@dataclass(frozen=True)
class Catalog:
    """Everything a profile pins.

    :param content_epoch: date inside packages and layers, seconds since 1970.
    :param debian_roles: role to names of Debian packages, ours among them.
    :param redhat_releases: major versions of EL that there are repositories for.
    :param redhat_minimal: what an EL machine has at least: packages, with all they need, when there
        are repositories to look them up in; else names that our packages may require.
    :param redhat_roles: role to names of RPMs, ours among them.
    :param redhat_repositories: where RPMs of other people come from; ``$releasever`` in a URL and
        in the path of a key stands for the major version.
    """

    version: Version
    suite: str
    architecture: str
    keyring: Path
    content_epoch: int
    base_packages: tuple[str, ...]
    builder_packages: tuple[str, ...]
    testbed_packages: tuple[str, ...]
    testbed_pods: tuple[str, ...]
    debian_roles: Mapping[str, tuple[str, ...]]
    redhat_releases: tuple[str, ...]
    redhat_minimal: tuple[str, ...]
    redhat_roles: Mapping[str, tuple[str, ...]]
    redhat_repositories: tuple[RedhatRepository, ...]
    packages: tuple[Package, ...]
    images: tuple[Image, ...]
    pulled_images: tuple[PulledImage, ...]

    def package(self, name: str) -> Package:
        return next(package for package in self.packages if package.name == name)

    def redhat_repositories_of(self, release: str) -> tuple[RedhatRepository, ...]:
        """Return where RPMs of other people come from for a major version of EL."""
        return tuple(
            dataclasses.replace(
                repository,
                url=repository.url.replace(RELEASE, release),
                key=Path(str(repository.key).replace(RELEASE, release)),
            )
            for repository in self.redhat_repositories
        )

    @property
    def redhat_packages(self) -> tuple[str, ...]:
        """RPMs that a machine of some role installs."""
        return tuple(sorted({name for names in self.redhat_roles.values() for name in names}))

    @property
    def node_packages(self) -> tuple[str, ...]:
        """Debian's own packages that a node of any role installs."""
        ours = {name for package in self.packages for name in package.debs}
        wanted = {name for names in self.debian_roles.values() for name in names}
        return tuple(sorted(wanted - ours))

    @property
    def unused_images(self) -> dict[str, str]:
        """Images that nothing on the ISO has to refer to: ``name:version`` to the reason."""
        built = {f"{image.name}:{image.version}": image.unused for image in self.images}
        pulled = {f"{image.name}:{image.tag}": image.unused for image in self.pulled_images}
        aliases = {alias: "alias" for image in self.pulled_images for alias in image.aliases}
        return {image: why for image, why in {**built, **pulled, **aliases}.items() if why}


def load(root: Path, profile: str) -> Catalog:
    """Read the pins of a profile.

    :raises PinError: with the file and every key that is unknown, missing or of the wrong type.
    """
    folder = root / "buildchain" / "pins" / profile
    settings = _settings(folder / "profile.toml", PROFILE_KEYS)
    redhat = _settings(folder / "redhat.toml", REDHAT_KEYS)["redhat"]
    repositories = _repositories(folder / "redhat.toml", redhat)
    images, pulled_images = _images(folder / "images.toml")
    return Catalog(
        version=read_version(root / "VERSION"),
        suite=settings["debian"]["suite"],
        architecture=settings["debian"]["architecture"],
        keyring=Path(settings["debian"]["keyring"]),
        content_epoch=settings["content"]["epoch"],
        base_packages=tuple(settings["base"]["packages"]),
        builder_packages=tuple(settings["builder"]["packages"]),
        testbed_packages=tuple(settings["testbed"]["packages"]),
        testbed_pods=tuple(settings["testbed-pods"]["packages"]),
        debian_roles=_roles(settings["debian"]),
        redhat_releases=tuple(redhat["releases"]),
        redhat_minimal=tuple(redhat["minimal"]),
        redhat_roles=_roles(redhat),
        redhat_repositories=repositories,
        packages=tuple(_packages(folder / "packages.toml")),
        images=images,
        pulled_images=pulled_images,
    )


def _roles(table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return what each role installs: every machine is a node."""
    roles = table["roles"]
    return {role: tuple(sorted({*roles["node"], *roles[role]})) for role in ROLES}


def _repositories(path: Path, settings: Mapping[str, Any]) -> tuple[RedhatRepository, ...]:
    """Return the repositories of RPMs.

    :raises PinError: the key of one is not there.
    """
    found = tuple(
        RedhatRepository(
            name, table["url"], path.parent / table["key"], table.get("is_signed", True)
        )
        for name, table in settings["repositories"].items()
    )
    keys = (
        Path(str(repository.key).replace(RELEASE, release))
        for repository in found
        for release in settings["releases"]
    )
    missing = [f"no key {key}" for key in dict.fromkeys(keys) if not key.is_file()]
    _raise(path, missing)
    return found


def tools(root: Path) -> tuple[Tool, ...]:
    """Read the table of programs the build calls on this machine."""
    return tuple(records(root / "buildchain" / "pins" / "host_tools.toml", Tool))


def read_version(path: Path) -> Version:
    """Read the ``VERSION`` file (``VERSION_MAJOR=2`` …)."""
    pairs = dict(
        line.split("=", 1) for line in _text(path).splitlines() if "=" in line and line[0] != "#"
    )
    try:
        return Version(
            int(pairs["VERSION_MAJOR"]),
            int(pairs["VERSION_MINOR"]),
            int(pairs["VERSION_PATCH"]),
            pairs.get("VERSION_SUFFIX", ""),
        )
    except (KeyError, ValueError) as error:
        raise PinError(f"{path}: bad or missing {error}", solution="Correct it.") from error


def place(path: Path, text: str) -> str:
    """Return where a file says something, as ``path:line``; only the path when it does not."""
    for number, line in enumerate(_text(path).splitlines(), 1):
        if text in line:
            return f"{path}:{number}"
    return str(path)


def records(path: Path, kind: type[Record]) -> list[Record]:
    """Read a TOML file of named tables into frozen records of one kind."""
    problems: list[str] = []
    found = _records(parse(path), kind, problems)
    _raise(path, problems)
    return found


def _records(
    tables: Mapping[str, Mapping[str, Any]], kind: type[Record], problems: list[str]
) -> list[Record]:
    found: list[Record] = []
    for name, table in tables.items():
        wrong = _problems(f"[{name}]", table, kind)
        if not wrong:
            values = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
            found.append(kind(**{"name": name, **values}))
        problems += wrong
    return found


def _images(path: Path) -> tuple[tuple[Image, ...], tuple[PulledImage, ...]]:
    """Read images: a table with a ``reference`` is pulled, any other is built."""
    tables = parse(path)
    pulled = {name: table for name, table in tables.items() if "reference" in table}
    problems: list[str] = []
    ours = _records({n: t for n, t in tables.items() if n not in pulled}, Image, problems)
    others = _records(pulled, PulledImage, problems)
    taken = {f"{image.name}:{image.version}" for image in ours}
    for image in others:
        problems += [f"[{image.name}]: {problem}" for problem in _pulled_problems(image, taken)]
    _raise(path, problems)
    return tuple(ours), tuple(others)


def _pulled_problems(image: PulledImage, taken: set[str]) -> Iterator[str]:
    """Compare a pulled image with what references and the ISO's tree allow."""
    for text in (image.reference, f"{image.reference}@{image.digest}"):
        try:
            if reference.parse(text).digest and text == image.reference:
                yield "reference: the digest belongs into `digest`"
        except ValueError as error:
            yield f"reference and digest: expected {error}"
            break
    for place in (f"{image.name}:{image.tag}", *image.aliases):
        name, _, tag = place.partition(":")
        if not reference.REPOSITORY.fullmatch(name) or not reference.TAG.fullmatch(tag):
            yield f"{place} is no name:version of an image"
        if place in taken:
            yield f"there are two images {place}"
        taken.add(place)
    several = len(image.platforms) > 1
    for platform in image.platforms:
        if not PLATFORM.fullmatch(platform) and (several or platform != "all"):
            yield f'platforms: {platform}: expected os/architecture[/variant], or only "all"'
    if not image.platforms:
        yield "platforms: expected at least one"


def parse(path: Path) -> dict[str, dict[str, Any]]:
    """Parse a TOML file of tables.

    :raises PinError: it is missing or not TOML, with the line.
    """
    try:
        document = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise PinError(f"{path}: {error}", solution="Correct the file.") from error
    _raise(path, [f"{key}: a table" for key, value in document.items() if type(value) is not dict])
    return document


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PinError(f"{path}: {error.strerror}", solution="Restore it from git.") from error
    except UnicodeDecodeError as error:
        raise PinError(f"{path}: not UTF-8: {error}", solution="Correct the file.") from error


def _packages(path: Path) -> list[Package]:
    problems: list[str] = []
    found = []
    for name, table in parse(path).items():
        raw = table.get("sources", [])
        entries = raw if isinstance(raw, list) else []
        for index, entry in enumerate(entries):
            problems += _problems(f"[{name}] sources {index + 1}", entry, Source)
        problems += _problems(f"[{name}]", table, Package)
        if not problems:
            values: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in table.items()
            }
            values["sources"] = tuple(Source(**entry) for entry in entries)
            found.append(Package(name=name, **values))
    _raise(path, problems)
    return found


def _problems(where: str, table: Mapping[str, object], kind: type[Record]) -> list[str]:
    """Compare a table with the fields of a record (strings, booleans and lists of strings)."""
    fields = {f.name: f for f in dataclasses.fields(kind) if f.name != "name"}  # type: ignore[arg-type]
    problems = [f"{where}: unknown key {key}" for key in table if key not in fields]
    for key, field in fields.items():
        if key not in table:
            if field.default is dataclasses.MISSING:
                problems.append(f"{where}: {key} is missing")
            continue
        kind_of = {"str": "str", "Path": "str", "bool": "bool"}.get(str(field.type), "list")
        if key != "sources":
            problems += _type_problems(where, key, table[key], kind_of)
    return problems


def _type_problems(where: str, key: str, value: object, expected: str) -> list[str]:
    """Compare a value with a type of ``PROFILE_KEYS``."""
    if expected == "roles":
        return _role_problems(where, value)
    if expected == "repositories":
        return _repository_problems(where, value)
    if type(value).__name__ != expected:
        return [f"{where}: {key} must be a {expected}"]
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        return [f"{where}: {key} must be a list of strings"]
    return []


def _role_problems(where: str, value: object) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where}: roles must be a table"]
    problems = [f"{where}: no such role: {role}" for role in value if role not in ROLES]
    for role in ROLES:
        if role not in value:
            problems.append(f"{where}: role {role} is missing")
        else:
            problems += _type_problems(where, f"role {role}", value[role], "list")
    return problems


def _repository_problems(where: str, value: object) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where}: repositories must be a table"]
    problems = []
    for name, table in value.items():
        here = f"{where[:-1]}.repositories.{name}]"
        if not isinstance(table, dict):
            problems.append(f"{here}: must be a table")
        elif not REPOSITORY.fullmatch(name) or name == OURS:
            problems.append(
                f"{here}: expected a name of letters, digits, '-', '_' and '.', and not {OURS}"
            )
        else:
            problems += _problems(here, table, RedhatRepository)
    return problems


def _settings(path: Path, tables: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Any]]:
    """Read a file of which all tables and keys are known, and none is missing."""
    document = parse(path)
    problems = [f"unknown table [{name}]" for name in document if name not in tables]
    for name, keys in tables.items():
        table = document.get(name, {})
        problems += [f"[{name}]: {key} is missing" for key in sorted(keys.keys() - table.keys())]
        problems += [f"[{name}]: unknown key {key}" for key in sorted(table.keys() - keys.keys())]
        for key in sorted(keys.keys() & table.keys()):
            problems += _type_problems(f"[{name}]", key, table[key], keys[key])
    _raise(path, problems)
    return document


def _raise(path: Path, problems: list[str]) -> None:
    if problems:
        raise PinError(f"{path}: {'; '.join(problems)}", solution="Correct the file.")
