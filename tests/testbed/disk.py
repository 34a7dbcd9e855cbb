"""Disks of virtual machines: a Debian of today that has nothing of ours.

Runs ``mmdebstrap``, ``mke2fs`` and ``ssh-keygen``, as root. On disk, in the cache, one folder a
variant and state of the archive::

    machines/<variant>-<12 digits>/disk.ext4      sparse, without a partition table
                                   vmlinuz, initrd.img
                                   key, key.pub    who may enter as root
                                   known_hosts     of the machine, for the name `machine`
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

RECIPE = pathlib.Path(__file__).parent / "vm"
SUITE = "bookworm"
SIZE = "45G"  # what a machine needs, and a little
DIGITS = 12
# Nothing of this machine's comes along.
ENVIRONMENT = {"HOME": "/root", "LC_ALL": "C.UTF-8"}
SBIN = ":/usr/sbin:/sbin"  # where a root file system is made, and ordinary users do not look


class DiskError(Exception):
    """A disk cannot be made; the text says why and what to do."""


@dataclass(frozen=True)
class Disk:
    """The disk of a variant, to be copied for each machine."""

    folder: pathlib.Path

    @property
    def image(self) -> pathlib.Path:
        return self.folder / "disk.ext4"

    @property
    def kernel(self) -> pathlib.Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> pathlib.Path:
        return self.folder / "initrd.img"

    @property
    def key(self) -> pathlib.Path:
        return self.folder / "key"

    @property
    def known_hosts(self) -> pathlib.Path:
        return self.folder / "known_hosts"


def variants() -> Mapping[str, Mapping[str, object]]:
    """Return the machines there are recipes for."""
    return tomllib.loads((RECIPE / "variants.toml").read_text(encoding="utf-8"))


def cache() -> pathlib.Path:
    """Return where the build keeps what outlives it; it tells in ``METALK8S_CACHE_ROOT``."""
    default = pathlib.Path.home() / ".cache" / "metalk8s"
    return pathlib.Path(os.environ.get("METALK8S_CACHE_ROOT", default))


def ensure(variant: str, apt: pathlib.Path, cache: pathlib.Path) -> Disk:
    """Return the disk of a variant; it is made when there is none of today's archive.

    :param apt: private APT state of the build: ``debian.sources`` and ``lists``.
    :raises DiskError: no such variant, not root, or a program failed.
    """
    if variant not in variants():
        known = ", ".join(variants())
        raise DiskError(f"there is no machine {variant}. Name one of: {known}.")
    folder = cache / "machines" / f"{variant}-{identity(variant, apt)}"
    if not folder.is_dir():
        if os.geteuid() != 0:
            raise DiskError("only root can make a disk with files of root. Run it as root.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{variant}-", dir=folder.parent) as scratch:
            made = pathlib.Path(scratch) / "made"
            made.mkdir()
            _make(variant, apt, made)
            _forget(variant, folder.parent)
            made.rename(folder)
    return Disk(folder)


def identity(variant: str, apt: pathlib.Path) -> str:
    """Name a disk by its recipe and by what the archive has."""
    recipe = (sorted(variants()[variant].items()), SUITE, SIZE)
    digest = hashlib.sha256(repr(recipe).encode())
    scripts = sorted(RECIPE.glob("*.sh"))
    indexes = sorted((apt / "lists").glob("*_InRelease"))
    if not indexes:
        raise DiskError(f"{apt} has no indexes of Debian. Run ./doit.sh _apt_update.")
    for path in (*scripts, *indexes):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:DIGITS]


def _forget(variant: str, machines: pathlib.Path) -> None:
    """Remove the disks of a variant that the archive has left behind."""
    for folder in machines.glob(f"{variant}-*"):
        shutil.rmtree(folder)


def _make(variant: str, apt: pathlib.Path, made: pathlib.Path) -> None:
    recipe = variants()[variant]
    disk = Disk(made)
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "machine", "-f", disk.key)
    with tempfile.TemporaryDirectory(prefix="root-", dir=made.parent) as scratch:
        root, sources = pathlib.Path(scratch) / "root", pathlib.Path(scratch) / "debian.sources"
        # Neither sources of packages nor other suites.
        text = (apt / "debian.sources").read_text(encoding="utf-8")
        sources.write_text(text.replace("Types: deb deb-src", "Types: deb"), encoding="utf-8")
        _run(*_argv(recipe, sources, root, disk.key.with_suffix(".pub")))
        # An installed machine asks its archive, which is not reached from where it was moved.
        _keep_host_keys(root, disk)
        for name in ("vmlinuz", "initrd.img"):
            [file] = (root / "boot").glob(f"{name}-*")
            shutil.copyfile(file, made / name)
        _run("mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", root, disk.image, SIZE)


def _argv(
    recipe: Mapping[str, object], sources: pathlib.Path, root: pathlib.Path, key: pathlib.Path
) -> list[object]:
    packages, scripts = recipe["packages"], recipe["scripts"]
    assert isinstance(packages, list)
    assert isinstance(scripts, list)
    return [
        "mmdebstrap",
        f"--variant={recipe['base']}",
        "--mode=root",
        "--format=directory",
        f"--include={','.join([*packages, str(recipe['kernel'])])}",
        f'--customize-hook="{RECIPE}/settle.sh" "$1" "{key}"',
        *(f'--customize-hook="{RECIPE}/{script}" "$1"' for script in scripts),
        SUITE,
        root,
        sources,
    ]


def _keep_host_keys(root: pathlib.Path, disk: Disk) -> None:
    lines = [
        f"machine {' '.join(path.read_text(encoding='ascii').split()[:2])}\n"
        for path in sorted((root / "etc/ssh").glob("ssh_host_*_key.pub"))
    ]
    disk.known_hosts.write_text("".join(lines), encoding="ascii")


def _run(*words: object) -> None:
    argv = [str(word) for word in words]
    done = subprocess.run(
        argv,
        env={**ENVIRONMENT, "PATH": os.environ["PATH"] + SBIN},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-20:])
        raise DiskError(f"{argv[0]} failed with status {done.returncode}:\n{last}")
