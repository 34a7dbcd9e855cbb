"""APT with a private state: the machine's Debian sources, our own lists, cache and dpkg status.

Programs: ``apt-get``, ``dpkg-deb``. On disk: an apt.conf and a deb822 source list.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.project.model import DebianFile

TARGET_FORMAT = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)|$(TARGET_OF)"
# " kubelet : Depends: mount (>= 2) but it is not installable", further ones without the package
UNMET_LINE = re.compile(
    r"^ (?P<package>\S+)? *:? *(?P<relation>\S*Depends|Conflicts|Breaks): "
    r"(?P<what>.+?) but (?P<why>.+)$"
)
NO_PACKAGE = re.compile(r"^E: (?P<why>(?:Unable to locate package|Package '.+' has no).*)$")
# 'http://…/pool/…/name_1%3a2_amd64.deb' name_1%3a2_amd64.deb 39020 SHA256:<hex>
URI_LINE = re.compile(
    r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha>[0-9a-f]{64})$"
)


@dataclass(frozen=True, order=True)
class Entry:
    """One suite of an archive, as the machine has it configured."""

    uri: str
    suite: str
    component: str


def argv_for_targets() -> list[str]:
    """List the package indexes the machine is configured for."""
    return ["apt-get", "indextargets", "--format", TARGET_FORMAT, "Identifier: Packages"]


def parse_targets(text: str, suite: str) -> tuple[Entry, ...]:
    """Return the Debian archive's own entries for a suite and its updates; others are ignored."""
    found = set()
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != 5:
            continue
        uri, release, component, origin, kind = fields
        if origin == "Debian" and kind == "deb" and release.split("-")[0] == suite:
            found.add(Entry(uri, release, component))
    return tuple(sorted(found))


def source_list(entries: Iterable[Entry], keyring: Path, architecture: str) -> str:
    """Return a deb822 source list with binary and source entries."""
    return "\n".join(
        f"Types: deb deb-src\nURIs: {entry.uri}\nSuites: {entry.suite}\n"
        f"Components: {entry.component}\nArchitectures: {architecture}\nSigned-By: {keyring}\n"
        for entry in entries
    )


def configuration(root: Path, status: Path, archives: Path) -> str:
    """Return an apt.conf that keeps everything below ``root``.

    It is read last (``-c``), so the machine's proxies stay and its hooks go.
    """
    return f"""\
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
Dir::Etc::sourcelist "{root}/debian.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "{root}/lists";
Dir::State::extended_states "{root}/extended_states";
Dir::State::status "{status}";
Dir::Cache::archives "{archives}";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Debug::NoLocking "true";
"""


def argv_for_update(configuration_file: Path) -> list[str | Path]:
    """Fetch and verify the archive's signed indexes; any failure is a failure."""
    strict = ["-o", "APT::Update::Error-Mode=any"]
    return ["apt-get", "-c", configuration_file, "-q", *strict, "update"]


def argv_for_install(
    configuration_file: Path, packages: Sequence[str], *, print_only: bool
) -> list[str | Path]:
    """Resolve ``packages`` against the status file; print or download what is missing from it."""
    mode = ["--print-uris"] if print_only else ["--download-only", "-o", "Dpkg::Use-Pty=0"]
    return ["apt-get", "-c", configuration_file, "-q", "-y", *mode, "install", *packages]


def argv_for_download(configuration_file: Path, files: Iterable[DebianFile]) -> list[str | Path]:
    """Download packages at exactly these versions into the working directory."""
    wanted = [f"{file.name}:{file.architecture}={file.version}" for file in files]
    return ["apt-get", "-c", configuration_file, "-q", "download", *wanted]


def argv_for_source(configuration_file: Path, wanted: str) -> list[str | Path]:
    """Download the files of a source package into the working directory.

    :param wanted: ``<package>=<version>`` or ``<package>/<suite>``.
    """
    return ["apt-get", "-c", configuration_file, "-q", "source", "--download-only",
            "--only-source", wanted]  # fmt: skip


def parse_suites(text: str) -> tuple[str, ...]:
    """Return the suites that a deb822 source list names, each once."""
    return tuple(dict.fromkeys(re.findall(r"^Suites: (\S+)$", text, re.MULTILINE)))


def parse_uris(text: str) -> tuple[DebianFile, ...]:
    """Return the packages of ``--print-uris``, sorted by name."""
    found = []
    for line in text.splitlines():
        match = URI_LINE.match(line.strip())
        if match is None or not match["file"].endswith(".deb"):
            continue
        stem = match["file"].removesuffix(".deb")
        name, version, architecture = stem.rsplit("_", 2)
        found.append(
            DebianFile(
                name=name,
                version=urllib.parse.unquote(version),
                architecture=architecture,
                file=match["file"],
                size=int(match["size"]),
                sha256=match["sha"],
            )
        )
    return tuple(sorted(found, key=lambda file: (file.name, file.version)))


def argv_for_unpacking(deb: Path, root: Path) -> list[str | Path]:
    """Unpack the files of a package below ``root``."""
    return ["dpkg-deb", "--extract", deb, root]


def argv_for_control(deb: Path) -> list[str | Path]:
    """Print the paragraph that describes a package, as its maintainers wrote it."""
    return ["dpkg-deb", "--field", deb]


def installed(paragraph: str) -> str:
    """Return the paragraph of a package as dpkg's status file has it once it is installed."""
    return f"{paragraph.rstrip()}\nStatus: install ok installed\n"


def repository_source(folder: Path, suite: str, component: str, keyring: Path) -> str:
    """Return a deb822 source list of one local repository."""
    return (
        f"Types: deb\nURIs: file:{folder}\nSuites: {suite}\nComponents: {component}\n"
        f"Signed-By: {keyring}\n"
    )


def argv_for_simulation(configuration_file: Path, packages: Sequence[str]) -> list[str | Path]:
    """Solve an installation and change nothing."""
    return ["apt-get", "-c", configuration_file, "-q", "-y", "--simulate", "install", *packages]


def parse_unmet(text: str) -> tuple[str, ...]:
    """Return what a failed solution lacks, a sentence each."""
    found = []
    package = ""
    for line in text.splitlines():
        unmet, unknown = UNMET_LINE.match(line), NO_PACKAGE.match(line)
        if unmet is not None:
            package = unmet["package"] or package
            found.append(f"{package} {unmet['relation']}: {unmet['what']} but {unmet['why']}")
        elif unknown is not None:
            found.append(unknown["why"])
    return tuple(dict.fromkeys(found))
