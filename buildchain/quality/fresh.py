"""A machine that nobody prepared: README's first command in a minimal root, its ISO beside ours.

Programs: ``git``, ``mmdebstrap``, ``rpm``, and those of :mod:`buildchain.quality.unprepared`. On
disk, until it ends: the root, the clone and its home in ``_build/fresh``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from buildchain.compare import reproduce
from buildchain.core import events, process
from buildchain.core.errors import BuildError, CommandError, ConfigError, ContentError
from buildchain.core.layout import Layout
from buildchain.core.receipt import write_whole
from buildchain.debian import apt
from buildchain.packages import rpm
from buildchain.project import git, source
from buildchain.project.catalog import Catalog
from buildchain.quality import unprepared

COMMAND = ("./doit.sh", "setup", "iso")  # README's first
# The machine's ways out, and what pip is told of them; nothing else of the caller's comes along.
HANDED = re.compile(r"PIP_\w+|SSL_CERT_\w+|(?i:https?_proxy|ftp_proxy|all_proxy|no_proxy)")
SITE = tuple(map(Path, ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf")))
PIP_OF_USER = Path("~/.config/pip/pip.conf")
PIP_OF_ALL = "etc/xdg/pip/pip.conf"  # read by every user's pip, as /etc/pip.conf is
CERTIFICATES = Path("/usr/local/share/ca-certificates")
# Options that say where things of this machine are, and who signs.
ITS_OWN = (
    *("BUILD_ROOT", "CACHE_ROOT", "REGISTRY_AUTH_FILE"),
    *("SIGNING_KEY", "SIGNING_PUBLIC_KEY", "KEY_INTRODUCTION"),
)
OWN_SOCKET = Path("/var/run/docker.sock")
BRIDGE = Path("/sys/class/net/docker0")
# What of a medium is another with another key: keys, signatures, and lists of what is signed.
OF_THE_KEY = re.compile(
    r"keys/.*|sbom/.*|.*\.(?:sig|gpg|asc)|.*/repodata/.*|(?:.*/)?(?:InRelease|SHA256SUM|MANIFEST)"
)
NO_ENGINE = "EngineError: the Docker engine was started and "


def check(layout: Layout, git_binary: str) -> None:
    """Insist on what this needs.

    :raises ConfigError: the checkout differs from its commit.
    :raises BuildError: it is not root who asks.
    """
    if os.geteuid() != 0:
        raise BuildError(
            "a root file system is made and entered by root only",
            solution="Run ./doit.sh test:fresh as root.",
        )
    if source.describe(git_binary, layout.root).endswith("-dirty"):
        raise ConfigError(
            f"files in {layout.root} differ from its commit, a fresh machine would not have them",
            solution="Commit or stash them, then build the ISO and try again.",
        )


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine that nobody prepared, with a clone.

    :param root: its file system.
    :param place: folder that is at the same path outside; ``home`` and ``checkout`` are in it.
    """

    root: Path
    place: Path

    @property
    def checkout(self) -> Path:
        return self.place / "checkout"

    def run(self, argv: Sequence[str | Path], settings: Mapping[str, str]) -> None:
        """Run something in the clone, with an engine of its own where that does no harm.

        Else with this machine's: an engine without a bridge, as the one in there is, removes
        docker0, since it shares the network.

        :param settings: all that is set inside, besides ways out of this machine.
        :raises CommandError: it fails.
        """
        if BRIDGE.exists():
            events.note("this machine's engine has docker0: going on with that engine")
            self._run(argv, settings, socket=str(OWN_SOCKET.resolve()))
            return
        said: list[str] = []
        try:
            self._run(argv, settings, on_line=said.append)
        except CommandError:
            if not any(line.startswith(NO_ENGINE) for line in said) or not OWN_SOCKET.is_socket():
                raise
            events.note("no engine runs in it: going on with that of this machine")
            self._run(argv, settings, socket=str(OWN_SOCKET.resolve()))

    def _run(
        self,
        argv: Sequence[str | Path],
        settings: Mapping[str, str],
        *,
        socket: str = "",
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        environment = _environment(self.place, settings)
        command = ["sh", "-c", 'cd "$0" && exec "$@"', self.checkout, *argv]
        folders = _folders(environment, self.root)
        events.note(f"running {' '.join(map(str, argv))} in it")
        whole = unprepared.argv_in_root(
            self.root, self.place, environment, command, folders=folders, socket=socket
        )
        process.run(whole, echo=True, on_line=on_line)


@contextlib.contextmanager
def machine(layout: Layout, catalog: Catalog, git_binary: str) -> Iterator[Machine]:
    """Provide a machine that nobody prepared; leave nothing of it behind."""
    folder = layout.build / "fresh"
    _remove(folder)
    made = Machine(folder / "root", folder / "place")
    (made.place / "home").mkdir(parents=True)
    try:
        _make_root(catalog, folder / "apt", made.root)
        process.run(git.argv_for_clone(git_binary, layout.root, made.checkout))
        yield made
    finally:
        _remove(folder)


@contextlib.contextmanager
def built(
    layout: Layout, catalog: Catalog, git_binary: str, settings: Mapping[str, str]
) -> Iterator[Layout]:
    """Build the ISO on a machine that nobody prepared; leave nothing of it behind.

    :param settings: options of the first build.
    :returns: where the build is, for as long as the block lasts.
    """
    with machine(layout, catalog, git_binary) as there:
        try:
            there.run(COMMAND, settings)
        except CommandError as error:
            raise _failed(error) from error
        yield dataclasses.replace(layout, root=there.checkout, build=there.checkout / "_build")


def _remove(folder: Path) -> None:
    # Nothing is mounted there any more; were it, what is mounted would be somebody else's.
    process.run(["rm", "-rf", "--one-file-system", folder])


def make_minimal(catalog: Catalog, folder: Path, root: Path, packages: Sequence[str]) -> None:
    """Make a root of a minimal Debian and a few packages, from this machine's sources.

    :param folder: for APT's settings.
    """
    events.note(f"making a root of Debian {catalog.suite} with {' and '.join(packages)} alone")
    folder.mkdir(parents=True, exist_ok=True)
    entries = apt.parse_targets(process.run(apt.argv_for_targets()), catalog.suite)
    sources, settings = folder / "debian.sources", folder / "apt.conf"
    write_whole(sources, apt.source_list(entries, catalog.keyring, catalog.architecture))
    write_whole(settings, unprepared.parse_settings(process.run(unprepared.argv_for_settings())))
    argv = unprepared.argv_for_root(catalog.suite, sources, settings, root, packages=packages)
    process.run(argv, own_group=True)


def _make_root(catalog: Catalog, folder: Path, root: Path) -> None:
    make_minimal(catalog, folder, root, unprepared.PACKAGES)
    given = {path: str(path.relative_to("/")) for path in SITE}
    given[PIP_OF_USER.expanduser()] = PIP_OF_ALL
    for path, inside in given.items():
        if path.is_file():
            (root / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, root / inside)
    write_whole(root / "etc" / "docker" / "daemon.json", unprepared.ENGINE_SETTINGS)
    if CERTIFICATES.is_dir():
        target = root / CERTIFICATES.relative_to("/")
        shutil.copytree(CERTIFICATES, target, dirs_exist_ok=True)
        process.run(["chroot", root, "update-ca-certificates"])
    if (root / "usr" / "bin" / "python3").exists():
        raise ContentError("the root has Python, which a fresh machine should not")


def _environment(place: Path, settings: Mapping[str, str]) -> dict[str, str]:
    handed = {name: value for name, value in os.environ.items() if HANDED.fullmatch(name)}
    return {**handed, **settings, "HOME": str(place / "home"), "LC_ALL": "C.UTF-8"}


def _folders(environment: Mapping[str, str], root: Path) -> list[str]:
    """Return the folders of this machine that pip is told to look into."""
    words = environment.get("PIP_FIND_LINKS", "").split()
    return [word for word in words if Path(word).is_dir() and not (root / word[1:]).exists()]


def _failed(error: CommandError) -> BuildError:
    return BuildError(
        f"{' '.join(COMMAND)} fails on a fresh machine (exit status {error.status})",
        solution="The reason stands above, where it came from.",
    )


def compare(first: Layout, second: Layout) -> int:
    """Compare what two ISOs carry that does not depend on the key; return how many files that are.

    :raises ContentError: naming what differs.
    """
    names = reproduce.differing(first.iso_root, second.iso_root)
    wrong = [
        name
        for name in names
        if not OF_THE_KEY.fullmatch(name)
        and not _is_the_same_rpm(first.iso_root / name, second.iso_root / name)
    ]
    for name in wrong[: reproduce.SHOWN]:
        explained = reproduce.explain(first.iso_root / name, second.iso_root / name)
        events.closing(f"differs: {name}: {explained}")
    if wrong:
        raise ContentError(
            f"{len(wrong)} files of the ISO differ on a fresh machine, the first: "
            f"{', '.join(wrong[: reproduce.SHOWN])}",
            solution="What is in them stands above; find what of this machine gets into them.",
        )
    return len(reproduce.listed(second.iso_root)) - len(names)


def _is_the_same_rpm(first: Path, second: Path) -> bool:
    """Tell whether two RPMs are the same but for their signatures."""
    if first.suffix != ".rpm" or not (first.is_file() and second.is_file()):
        return False
    digests = {process.run(rpm.argv_for_header_digest(path)).strip() for path in (first, second)}
    return len(digests) == 1 and digests != {""}
