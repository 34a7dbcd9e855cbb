"""Argument lists that make a machine which nobody prepared, and run something in it.

Programs: ``mmdebstrap``, ``unshare``, ``mount``, ``pivot_root``, ``apt-config``; all of it as root.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

# What a user has who can get the sources: nothing to build with, not even Python.
PACKAGES = ("ca-certificates", "git")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How APT reaches its sources: proxies, certificates, credentials.
ACQUIRE = re.compile(r'^Acquire::[\w:.-]+ ".*";$', re.MULTILINE)
# An engine in there has no part in the machine's network, and what it makes is told apart.
ENGINE_SETTINGS = '{"bridge": "none", "iptables": false, "ip6tables": false}\n'
# Mounts are of this process and its children, and end with them; so do all processes. An engine
# needs a root that is one, of a mount and of its namespace: chroot alone makes neither.
ENTER = """\
root=$1 place=$2 socket=$3
shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mkdir -p "$root$place"
mount --bind "$place" "$root$place"
if [ -n "$socket" ]; then
    : >"$root/run/docker.sock"
    mount --bind "$socket" "$root/run/docker.sock"
fi
for folder; do
    [ "$folder" != -- ] || break
    shift
    mkdir -p "$root$folder"
    mount --bind -o ro "$folder" "$root$folder"
done
shift
cd "$root"
mkdir -p .outside
pivot_root . .outside
exec chroot . sh -euc 'umount --lazy /.outside; rmdir /.outside; exec "$@"' sh "$@"
"""


def argv_for_root(
    suite: str,
    sources: Path,
    settings: Path,
    root: Path,
    *,
    packages: Sequence[str] = PACKAGES,
) -> list[str | Path]:
    """Make the root file system from the machine's own sources.

    :param sources: deb822 source list; the root keeps it.
    :param settings: how APT reaches them; the root keeps that, too.
    :param packages: what it has besides what every Debian has.
    """
    return ["mmdebstrap", "--variant=minbase", "--mode=root", "--format=directory",
            f"--include={','.join(packages)}", f"--aptopt={settings}", suite, root,
            sources]  # fmt: skip


def argv_for_settings() -> list[str]:
    """Print APT's configuration."""
    return ["apt-config", "dump"]


def parse_settings(text: str) -> str:
    """Return the part of APT's configuration that says how sources are reached."""
    return "".join(f"{line}\n" for line in ACQUIRE.findall(text))


def argv_in_root(
    root: Path,
    place: Path,
    environment: Mapping[str, str],
    argv: Sequence[str | Path],
    *,
    socket: str = "",
    folders: Sequence[str] = (),
) -> list[str | Path]:
    """Run something in the root, in namespaces of its own.

    :param place: folder that is at the same path inside, for an engine that sees it from outside.
    :param environment: all that is set inside.
    :param socket: the engine's, when it is that of this machine.
    :param folders: further ones that are inside what they are outside, read-only.
    """
    settings = [f"{name}={value}" for name, value in {"PATH": PATH, **environment}.items()]
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts",
            "sh", "-euc", ENTER, "sh", root, place, socket, *folders, "--",
            "env", "-i", *settings, *argv]  # fmt: skip
