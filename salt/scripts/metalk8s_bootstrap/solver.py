"""Asks the machine's package manager whether it could install from the medium.

Programs: ``apt-get`` or ``dnf``. Nothing is installed; lists and caches are in a temporary folder.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from metalk8s_bootstrap.machine import NOT_THERE, Machine
from metalk8s_bootstrap.medium import Medium

# What the machine has APT run before and after would change it; its holds and preferences count.
APT = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
Dir::Etc::SourceList "{scratch}/medium.sources";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "{scratch}/lists";
Dir::State::Status "{status}";
Dir::Cache "{scratch}";
Dir::Log "{scratch}";
Acquire::Languages "none";
APT::Sandbox::User "root";
Debug::NoLocking "true";
"""
COMPONENTS = ("container_engine", "etcd", "kubelet", "salt_minion", "tools")
# What a failed solution lacks, and of whom APT says nothing more after the first line.
UNMET = re.compile(r"^ (\S+)? *:? *((?:Pre)?Depends|Conflicts|Breaks): (.+)$")
ERROR = re.compile(r"^E: (?!Unable to correct problems|Unmet dependencies)(.+)$")
# dnf: "- nothing provides python3.11 needed by metalk8s-salt-3008.2-1.x86_64 from metalk8s"
NOTHING = re.compile(r"nothing provides (.+?) needed by (\S+)")


def pinned(medium: Medium, family: str) -> dict[str, str]:
    """Return the packages that states install by name, with their versions."""
    parameters, own = medium.parameters, medium.family_parameters(family)
    versions = medium.versions["packages"][family]
    names = [
        name
        for component in COMPONENTS
        for name in own.get(component, {}).get("packages", parameters[component]["packages"])
    ]
    return {name: _version(versions[name]) for name in names if name in versions}


def _version(build: dict[str, str]) -> str:
    return "-".join(filter(None, (build["version"], build.get("release"))))


def problems(machine: Machine, medium: Medium) -> Iterator[str]:
    """Give a sentence for each thing that keeps our packages from being installed."""
    family = machine.family
    repository = medium.family_parameters(family)["repo"]
    with tempfile.TemporaryDirectory(prefix="metalk8s-") as scratch:
        ask = _ask_apt if family == "debian" else _ask_dnf
        yield from ask(machine, medium, repository, Path(scratch))


def _ask_apt(
    machine: Machine, medium: Medium, repository: dict[str, Any], scratch: Path
) -> Iterator[str]:
    for name in ("lists/partial", "archives/partial"):
        (scratch / name).mkdir(parents=True)
    (scratch / "medium.sources").write_text(
        f"Types: deb\nURIs: file:{medium.root}/{repository['path']}\n"
        f"Suites: {repository['suite']}\nComponents: {' '.join(repository['components'])}\n"
        f"Signed-By: {medium.root}/{medium.parameters['archive']['signing_key']}\n",
        encoding="utf-8",
    )
    (scratch / "apt.conf").write_text(
        APT.format(scratch=scratch, status=f"{machine.root}/var/lib/dpkg/status"), encoding="utf-8"
    )
    apt = ["apt-get", "-q", "-c", f"{scratch}/apt.conf"]
    status, printed = machine.call([*apt, "--error-on=any", "update"])
    if status == NOT_THERE:
        yield "there is no apt-get"
        return
    if not status:
        wanted = [f"{name}={version}" for name, version in pinned(medium, "debian").items()]
        wanted += medium.family_parameters("debian").get("tools", {}).get("system", [])
        argv = [*apt, "--simulate", "--yes", "--no-install-recommends"]
        status, printed = machine.call([*argv, "install", *wanted])
    yield from _unmet(printed) if status else ()


def _unmet(printed: str) -> list[str]:
    """Read what APT could not do; the last line when it says nothing that is known."""
    found, package = [], ""
    for line in printed.splitlines():
        unmet, error = UNMET.match(line), ERROR.match(line)
        if unmet:
            package = unmet[1] or package
            found.append(f"{package} {unmet[2].lower()} on {unmet[3]}")
        elif error:
            found.append(error[1])
    return list(dict.fromkeys(found)) or printed.strip().splitlines()[-1:] or ["APT says nothing"]


def _ask_dnf(
    machine: Machine, medium: Medium, repository: dict[str, Any], scratch: Path
) -> Iterator[str]:
    release = machine.system.get("VERSION_ID", "").partition(".")[0]
    folder = f"{medium.root}/{repository['path'].format(release=release)}"
    argv = ["dnf", "--assumeno", "--quiet", "--disablerepo=*", f"--setopt=cachedir={scratch}"]
    argv += [f"--repofrompath=metalk8s-medium,file://{folder}", "--enablerepo=metalk8s-medium"]
    argv += ["--nogpgcheck", "--setopt=install_weak_deps=False"]
    names = [f"{name}-{version}" for name, version in pinned(medium, "redhat").items()]
    status, printed = machine.call([*argv, "install", *names])
    if status == NOT_THERE:
        yield "there is no dnf"
        return
    yield from dict.fromkeys(
        f"{who} needs {what}, which is neither installed nor on the medium"
        for what, who in NOTHING.findall(printed)
    )
