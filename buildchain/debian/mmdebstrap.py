"""Argument list of mmdebstrap, which makes a Debian root file system as a tar.

Programs: ``mmdebstrap``. With ``SOURCE_DATE_EPOCH`` set, equal packages give equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# What differs between two runs or is of no use in an image; dpkg's own state stays.
USELESS = (
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d",
    "/var/log/apt",
    "/var/log/dpkg.log",
    "/var/log/alternatives.log",
    "/var/log/bootstrap.log",
    "/var/cache/apt",
    "/var/cache/debconf",
    "/var/cache/ldconfig",
    "/var/lib/apt/lists",
    "/var/lib/dpkg/status-old",
    "/var/lib/dpkg/diversions-old",
    "/var/lib/dpkg/statoverride-old",
    "/usr/share/doc-base",
)
KEPT_FOLDERS = (
    "/etc/apt/sources.list.d",
    "/var/cache/apt/archives/partial",
    "/var/cache/debconf",
    "/var/lib/apt/lists/partial",
)


def argv_for_root(
    repository: Path,
    keyring: Path,
    suite: str,
    packages: Sequence[str],
    output: Path,
    *,
    as_root: bool,
) -> list[str | Path]:
    """Make a minimal root out of a local signed repository.

    :param repository: folder of an APT repository with all the packages.
    :param keyring: public key that signed it.
    :param as_root: run by root; anybody else uses a user namespace, from which the repository has
        to be readable.
    """
    useless = " ".join(f'"$1"{path}' for path in USELESS)
    folders = " ".join(f'"$1"{path}' for path in KEPT_FOLDERS)
    return [
        "mmdebstrap",
        "--variant=minbase",
        f"--mode={'root' if as_root else 'unshare'}",
        "--format=tar",
        f"--include={','.join(packages)}",
        # apt's own user cannot read below a private home or a temporary folder.
        '--aptopt=APT::Sandbox::User "root"',
        # Nothing in it may depend on the machine: no DNS, host name or proxy of the builder.
        '--customize-hook=rm -f "$1/etc/resolv.conf" "$1/etc/hostname"',
        f"--customize-hook=rm -rf {useless}",
        f"--customize-hook=mkdir -p {folders}",
        suite,
        output,
        f"deb [signed-by={keyring}] copy:{repository} {suite} main",
    ]
