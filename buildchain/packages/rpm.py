"""Argument lists for rpmbuild, and what a spec file says.

Programs: ``rpmbuild``, ``rpm``. Specs are parsed with python-rpm-spec (``pyrpm``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.errors import PinError


@dataclass(frozen=True)
class Spec:
    """What the build chain reads from a spec file.

    :param sources: file names, macros expanded, in order.
    :param packages: names of the binary packages, the main one first.
    """

    name: str
    version: str
    release: str
    sources: tuple[str, ...]
    patches: tuple[str, ...]
    packages: tuple[str, ...]


def read_spec(path: Path) -> Spec:
    """Parse a spec file.

    :raises PinError: it is missing, or lacks its name, version or sources, or a macro in a source
        has no definition.
    """
    from pyrpm.spec import Spec as Parser
    from pyrpm.spec import replace_macros

    try:
        parsed = Parser.from_file(str(path))
    except OSError as error:
        raise PinError(f"{path}: {error.strerror}", solution="Restore it from git.") from error
    expanded = [replace_macros(source, parsed) for source in parsed.sources]
    problems = [
        f"no {field}" for field in ("name", "version", "release") if not getattr(parsed, field)
    ]
    problems += [] if expanded else ["no Source line"]
    problems += [f"macro without a value in Source {text}" for text in expanded if "%{" in text]
    if problems:
        raise PinError(f"{path}: {'; '.join(problems)}", solution="Correct the spec file.")
    return Spec(
        name=parsed.name,
        version=parsed.version,
        release=parsed.release,
        sources=tuple(Path(source).name for source in expanded),
        patches=tuple(Path(patch).name for patch in parsed.patches),
        packages=tuple(package.name for package in parsed.packages),
    )


def read_license(path: Path) -> str:
    """Return the licence that a spec file declares, as an SPDX expression."""
    from pyrpm.spec import Spec as Parser

    return str(Parser.from_file(str(path)).license or "")


def argv_for_rpmbuild(stage: str, spec: str, defines: Mapping[str, str]) -> list[str]:
    """Build the source (``-bs``) or binary (``-bb``) packages of a spec.

    :param defines: macros, folders among them.
    """
    words = [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
    # On Debian rpm's own database knows no package, so it cannot judge build requirements.
    return ["rpmbuild", stage, "--nodeps", "--target", "x86_64", *words, spec]


def argv_for_query(kind: str, packages: Sequence[Path]) -> list[str | Path]:
    """Print, for each package, its name and one of its lists, a word on a line.

    :param kind: ``REQUIRE`` or ``PROVIDE``.
    """
    layout = f"[%{{=NAME}} %{{{kind}NAME}}\n]"
    return ["rpm", "--query", "--nosignature", "--queryformat", layout, "--package", *packages]


def argv_for_requirements(packages: Sequence[Path]) -> list[str | Path]:
    """Print, for each package, its name and what it requires in which version, one on a line."""
    layout = "[%{=NAME} %{REQUIRENAME} %{REQUIREFLAGS:depflags} %{REQUIREVERSION}\n]"
    return ["rpm", "--query", "--nosignature", "--queryformat", layout, "--package", *packages]


def argv_for_header_digest(package: Path) -> list[str | Path]:
    """Print the digest of all that a package is but for its signatures."""
    layout = "%{SHA256HEADER}"
    return ["rpm", "--query", "--nosignature", "--queryformat", layout, "--package", package]


def without_versions(capability: str) -> str:
    """Return a library without symbol version and word size: ``libc.so.6(GLIBC_2.2)(64bit)``."""
    return capability.partition("(")[0]


def parse_query(text: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of package and capability; what only rpm itself gives is left out."""
    pairs = (line.split(" ", 1) for line in text.splitlines() if " " in line)
    return tuple((name, what) for name, what in pairs if not what.startswith("rpmlib("))
