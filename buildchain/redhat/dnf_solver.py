"""A program for the Python that dnf runs on: it solves and downloads.

Usage: ``<python> -I dnf_solver.py REQUEST``, a JSON file that :func:`buildchain.redhat.dnf.request`
describes. It prints a JSON document on a line: ``{"progress": [done, total]}`` (packages) while it
downloads, at the end ``{"packages": [...]}`` or ``{"problem": {"kind": ..., ...}}``.

dnf's command line cannot leave out what a machine has already, nor fetch a single package; its
library (https://dnf.readthedocs.io/en/latest/api.html) can. Neither ``/etc/dnf``, plugins nor the
machine's rpm database are read: nothing is configured but what the request says.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOARCH = "noarch"
SET_CHILD_SUBREAPER = 36  # prctl(2)


class RefusedError(Exception):
    """What cannot be done, for the caller to put into words."""

    def __init__(self, kind: str, **facts: object) -> None:
        super().__init__(kind)
        self.problem = {"kind": kind, **facts}


def tell(**document: object) -> None:
    """Print one document."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def prepare(request: dict[str, Any]) -> Any:
    """Return dnf with the metadata of the repositories, and of nothing else."""
    import dnf
    import dnf.conf

    state = Path(request["state"])
    conf = dnf.conf.Conf()
    for option in ("installroot", "cachedir", "persistdir", "logdir"):
        folder = state / option
        folder.mkdir(parents=True, exist_ok=True)
        setattr(conf, option, str(folder))
    conf.arch = request["architecture"]
    conf.substitutions["releasever"] = request["release"]
    # An empty root does not say what it is; without this EL 8's default module streams are ignored.
    conf.module_platform_id = f"platform:el{request['release']}"
    conf.plugins = False
    conf.install_weak_deps = False
    conf.deltarpm = False
    conf.zchunk = False
    conf.retries = 3
    base = dnf.Base(conf)
    for entry in request["repositories"]:
        repository = base.repos.add_new_repo(
            entry["name"],
            conf,
            baseurl=[entry["url"]],
            gpgkey=[Path(entry["key"]).as_uri()],
            repo_gpgcheck=entry["is_signed"],
            priority=entry["priority"],
        )
        # Always compare repomd.xml, as dnf's --refresh does: an age of 0 seconds counts as fresh.
        repository._repo.expire()
    try:
        base.fill_sack(load_system_repo=False)
    except dnf.exceptions.RepoError as error:
        raise RefusedError("repository", text=str(error)) from error
    return base


def solve(base: Any, request: dict[str, Any]) -> list[Any]:
    """Return the packages that ``wanted`` need besides the minimal OS and all it needs."""
    installed = _resolve(base, (), request["minimal"], request["architecture"])
    names = {str(package) for package in installed}
    needed = _resolve(base, installed, request["wanted"], request["architecture"])
    return [package for package in needed if str(package) not in names]


def _resolve(base: Any, installed: Any, specs: list[str], architecture: str) -> list[Any]:
    import dnf

    _check_exist(base, specs, architecture)
    base.reset(goal=True)
    for package in installed:
        base.package_install(package)
    try:
        for spec in specs:
            base.install(spec)
        base.resolve()
    except dnf.exceptions.Error as error:
        raise RefusedError("unsolvable", text=str(error)) from error
    packages = list(base.transaction.install_set)
    _check_architecture(packages, architecture)
    return packages


def _check_exist(base: Any, specs: list[str], architecture: str) -> None:
    import dnf.subject

    missing, foreign = [], {}
    for spec in specs:
        found = {package.arch for package in dnf.subject.Subject(spec).get_best_query(base.sack)}
        if not found:
            missing.append(spec)
        elif not found & {NOARCH, architecture}:
            foreign[spec] = sorted(found)
    if missing:
        raise RefusedError("missing", names=missing)
    if foreign:
        raise RefusedError("architecture", packages=foreign)


def _check_architecture(packages: list[Any], architecture: str) -> None:
    """Refuse what only runs by compatibility: 32-bit packages."""
    foreign = {str(p): [p.arch] for p in packages if p.arch not in (NOARCH, architecture)}
    if foreign:
        raise RefusedError("architecture", packages=foreign)


def find(base: Any, request: dict[str, Any]) -> list[Any]:
    """Return exactly the packages that the request lists."""
    found, gone = [], []
    for file in request["exactly"]:
        query = base.sack.query().filter(
            name=file["name"],
            epoch=file["epoch"],
            version=file["version"],
            release=file["release"],
            arch=file["architecture"],
            reponame=file["repository"],
        )
        matches = list(query)
        found += matches[:1]
        if not matches:
            gone.append(file["name"])
    if gone:
        raise RefusedError("gone", names=gone)
    return found


def download(base: Any, packages: list[Any], folder: Path) -> None:
    """Download packages into ``folder/<repository>``, checked against the metadata."""
    import dnf
    import dnf.callback

    class Meter(dnf.callback.DownloadProgress):  # type: ignore[misc]
        done = 0

        def end(self, _payload: object, _status: object, _message: object) -> None:
            self.done += 1
            tell(progress=[self.done, len(packages)])

    meter = Meter()
    for name in sorted({package.reponame for package in packages}):
        here = folder / name
        here.mkdir(parents=True)
        # The one is for what comes over the network, the other for folders of this machine.
        base.repos[name].pkgdir = base.conf.destdir = str(here)
        batch = [package for package in packages if package.reponame == name]
        try:
            base.download_packages(batch, meter)
        except (dnf.exceptions.Error, OSError) as error:
            raise RefusedError(
                "download", text=str(error), names=[str(p) for p in batch], repository=name
            ) from error


def describe(package: Any) -> dict[str, object]:
    """Return a package as the fields of :class:`buildchain.project.model.RedhatFile`."""
    import hawkey

    kind, digest = package.chksum
    if kind != hawkey.CHKSUM_SHA256:
        raise RefusedError("checksum", repository=package.reponame, package=str(package))
    if package.baseurl:
        raise RefusedError("elsewhere", repository=package.reponame, url=package.baseurl)
    return {
        "name": package.name,
        "epoch": package.epoch,
        "version": package.version,
        "release": package.release,
        "architecture": package.arch,
        "file": Path(package.location).name,
        "size": package.downloadsize,
        "sha256": digest.hex(),
        "repository": package.reponame,
    }


def answer(request: dict[str, Any]) -> None:
    """Do what the request says."""
    base = prepare(request)
    packages = find(base, request) if "exactly" in request else solve(base, request)
    described = [describe(package) for package in packages]
    if "exactly" in request:
        download(base, packages, Path(request["folder"]))
    tell(packages=described)


@contextlib.contextmanager
def no_daemons() -> Iterator[None]:
    """End what is left behind: checking metadata starts two GnuPG agents for each repository."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        while pids := [int(pid) for pid in children.read_text(encoding="ascii").split()]:
            for pid in pids:
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)


def main(path: str) -> None:
    """Answer the request in a file."""
    try:
        with no_daemons():
            answer(json.loads(Path(path).read_text(encoding="utf-8")))
    except RefusedError as refused:
        tell(problem=refused.problem)


if __name__ == "__main__":
    main(sys.argv[1])
