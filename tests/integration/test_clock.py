"""chronyd of the medium with our configuration: masters agree, others follow them.

Machines are network namespaces of this test on one bridge; all of them have the kernel's clock,
which nobody sets (``-x``). So what is seen here is whom a machine follows and when it notices that
it is wrong, not that its clock jumps. Runs ``dpkg-deb``, ``ip``, ``nsenter`` and ``unshare``.
"""

from __future__ import annotations

import os
import pathlib
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jinja2
import pytest

from tests import firewall
from tests.integration.conftest import require, run
from tests.integration.test_firewall_table import Namespace

pytestmark = pytest.mark.integration

FILES = firewall.ROOT / "salt/states/metalk8s/clock/files"
MASTERS, OTHER = ("10.77.0.1", "10.77.0.2"), "10.77.0.9"
MEASURED = 90  # seconds that chrony may need for the first agreement
# A server of stratum 1, whose clock is the kernel's until it is told by how much to be ahead.
SERVER = """
import select, socket, struct, sys, time
def stamp(seconds):
    whole, part = divmod(seconds + 2208988800, 1)
    return struct.pack('!II', int(whole), int(part * 2**32))
server, ahead = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0
server.bind((sys.argv[1], 123))
print('ready', flush=True)
while True:
    ready = select.select([server, sys.stdin], [], [])[0]
    if sys.stdin in ready:
        ahead = float(sys.stdin.readline())
    if server in ready:
        asked, who = server.recvfrom(100)
        now = stamp(time.time() + ahead)
        head = struct.pack('!BBbbII4s', 0x24, 1, asked[2], -20, 0, 0, b'GPS')
        server.sendto(head + now + asked[40:48] + now + stamp(time.time() + ahead), who)
"""


@pytest.fixture(scope="module")
def programs(
    iso_tree: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, pathlib.Path]:
    """Unpack chronyd and chronyc of the medium."""
    require("dpkg-deb", "ip", "nsenter", "unshare")
    [package] = (iso_tree / "packages/debian").rglob("chrony_*.deb")
    folder = tmp_path_factory.mktemp("chrony")
    run("dpkg-deb", "--extract", package, folder)
    return {"chronyd": folder / "usr/sbin/chronyd", "chronyc": folder / "usr/bin/chronyc"}


def known(folder: pathlib.Path, address: str, **clock: Any) -> dict[str, Any]:
    """Return what the states know of a machine with that address, and files in a folder."""
    metalk8s = firewall.known(address=address, networks=["10.77.0.0/24"])
    metalk8s["clock"].update(config_folder=str(folder / "clock"), **clock)
    return metalk8s


def write(metalk8s: dict[str, Any]) -> pathlib.Path:
    """Write the files of the clock as the states do; what is outside its folder comes into it."""
    folder = pathlib.Path(metalk8s["clock"]["config_folder"])
    folder.mkdir(parents=True)
    environment = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined)
    config = folder.parent / "chrony.conf"
    names = {"metalk8s.conf": config}
    for name in ("metalk8s.conf", "clock.sources", "start.conf"):
        template = environment.from_string((FILES / f"{name}.j2").read_text(encoding="utf-8"))
        text = template.render(metalk8s=metalk8s).replace("/var/lib/chrony", str(folder.parent))
        names.get(name, folder / name).write_text(f"{text}\n", encoding="utf-8")
    folder.parent.chmod(0o770)  # chronyd insists, where its socket is
    with config.open("a", encoding="utf-8") as file:
        file.write(f"bindcmdaddress {folder.parent}/socket\npidfile {folder.parent}/pid\n")
    return config


class Clock:
    """A machine with chronyd."""

    def __init__(
        self, programs: dict[str, pathlib.Path], space: Namespace, config: pathlib.Path
    ) -> None:
        self.space, self.folder, self.chronyc = space, config.parent, programs["chronyc"]
        argv = (programs["chronyd"], "-x", "-d", "-F", "1", "-u", "root", "-f", config)
        self.daemon = subprocess.Popen(
            space.words(*argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.said = ""

    def says(self, pattern: str, seconds: float) -> None:
        """Wait until its log has a line."""
        assert self.daemon.stdout
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.daemon.stdout, selectors.EVENT_READ)
            while not re.search(pattern, self.said):
                assert selector.select(end - time.monotonic()), f"not {pattern}: {self.said}"
                read = os.read(self.daemon.stdout.fileno(), 65536)
                assert read, f"chronyd ended: {self.said}"
                self.said += read.decode()

    def ask(self, *words: str) -> list[list[str]]:
        """Ask it by chronyc."""
        argv = (self.chronyc, "-n", "-c", "-h", self.folder / "socket", *words)
        return [line.split(",") for line in self.space.inside(*argv).splitlines()]

    def follows(self, source: str, seconds: float) -> list[str]:
        """Wait until it follows a source, and return what it says of that.

        A machine that is busy makes it doubt what it has selected, until it has measured again.
        """
        end = time.monotonic() + seconds
        while (found := self.ask("tracking")[0])[1] != source:
            assert time.monotonic() < end, f"{found}: {self.said}"
            time.sleep(0.5)
        return found

    def end(self) -> None:
        self.daemon.terminate()
        self.daemon.communicate(timeout=20)


Start = Callable[..., Clock]


@pytest.fixture
def start(programs: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> Iterator[Start]:
    """Start machines: by their address, and whom they follow."""
    bridge = Namespace()
    bridge.inside("ip", "link", "add", "bridge", "type", "bridge")
    bridge.inside("ip", "link", "set", "bridge", "up")
    spaces, clocks = [bridge], []

    def make(address: str, **clock: Any) -> Clock:
        space = Namespace()
        spaces.append(space)
        bridge.inside(*("ip", "link", "add", f"to{space.pid}", "master", "bridge", "type"),
                      *("veth", "peer", "name", "eth0", "netns", space.pid))  # fmt: skip
        bridge.inside("ip", "link", "set", f"to{space.pid}", "up")
        space.inside("ip", "link", "set", "lo", "up")
        space.inside("ip", "address", "add", f"{address}/24", "dev", "eth0")
        space.inside("ip", "link", "set", "eth0", "up")
        config = write(known(tmp_path / address, address, **clock))
        clocks.append(Clock(programs, space, config))
        return clocks[-1]

    try:
        yield make
    finally:
        for one in clocks:
            one.end()
        for space in spaces:
            space.end()


@pytest.mark.parametrize(
    "clock",
    [
        {"serves": True, "upstream": [], "masters": []},
        {"serves": True, "upstream": ["192.0.2.7"], "masters": list(MASTERS)},
        {"serves": False, "upstream": [], "masters": list(MASTERS)},
    ],
)
def test_chronyd_reads_what_we_write(
    programs: dict[str, pathlib.Path], tmp_path: pathlib.Path, clock: dict[str, Any]
) -> None:
    """Every directive of every file, as it stands there."""
    config = write(known(tmp_path / "machine", OTHER, **clock))
    read = run(programs["chronyd"], "-p", "-f", config).splitlines()
    folder = config.parent / "clock"
    for path in (config, *([folder / "start.conf"] if clock["serves"] else [])):
        lines = path.read_text(encoding="utf-8").splitlines()
        # In place of a folder it shows what is read there.
        wanted = {line for line in lines if not line.startswith(("#", "confdir"))}
        assert wanted <= set(read)
    sources = (folder / "clock.sources").read_text(encoding="utf-8").splitlines()[1:]
    assert run(programs["chronyd"], "-p", "-f", folder / "clock.sources").splitlines() == sources
    assert len(sources) == len(clock["upstream"]) + len(clock["masters"])


def test_masters_agree_and_others_follow(start: Start) -> None:
    """Without anybody outside: the smallest address is the reference; a new master is told."""
    first, second = (
        start(here, serves=True, upstream=[], masters=[one for one in MASTERS if one != here])
        for here in MASTERS
    )
    other = start(OTHER, serves=False, upstream=[], masters=[MASTERS[0]])
    second.says(f"Selected source {MASTERS[0]}", MEASURED)
    other.says(f"Selected source {MASTERS[0]}", MEASURED)
    [tracking] = first.ask("tracking")
    assert (tracking[0], tracking[2], tracking[13]) == ("7F7F0101", "10", "Normal")
    tracking = second.follows(MASTERS[0], MEASURED)
    assert (tracking[2], tracking[13]) == ("11", "Normal")
    sources = other.folder / "clock/clock.sources"
    [line] = re.findall("(?m)^server .*$", sources.read_text(encoding="utf-8"))
    with sources.open("a", encoding="utf-8") as file:
        file.write(f"{line.replace(*MASTERS)}\n")
    other.ask("reload", "sources")
    assert [row[2] for row in other.ask("sources")] == list(MASTERS)
    [tracking] = other.ask("tracking")
    assert tracking[13] == "Normal", "what was measured is forgotten"
    assert not other.space.inside("ss", "-Hlun").strip(), "it serves nobody"


def test_the_servers_of_the_site_are_told_apart(start: Start) -> None:
    """By the doctor, in what chronyc prints of them."""
    machine = start(OTHER, serves=False, upstream=["192.0.2.7"], masters=[MASTERS[0]])
    machine.says("Loaded seccomp filter", 10)
    options = {row[1]: row[4] for row in machine.ask("selectdata")}
    assert options == {"192.0.2.7": "P", MASTERS[0]: "-"}


def test_an_offset_of_ten_seconds_is_noticed_within_a_minute(start: Start) -> None:
    """It would jump then; that it may, the configuration says."""
    other = start(OTHER, serves=False, upstream=[], masters=[MASTERS[0]])
    words = other.space.words(sys.executable, "-c", SERVER, MASTERS[0])
    other.space.inside("ip", "address", "add", f"{MASTERS[0]}/32", "dev", "lo")
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as server:
        assert server.stdin
        assert server.stdout
        try:
            assert server.stdout.readline() == "ready\n"
            other.says(f"Selected source {MASTERS[0]}", MEASURED)
            server.stdin.write("10\n")
            other.says(r"System clock wrong by (9\.9|10\.0)", 60)
        finally:
            server.kill()
    assert "makestep 1 -1\n" in (other.folder / "chrony.conf").read_text(encoding="utf-8")
