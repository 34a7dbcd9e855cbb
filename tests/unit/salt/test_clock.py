"""Who keeps a clock, how that goes, and whom chrony is told to ask."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .loader import STATES, load

UNIT = "etc/systemd/system/chrony.service.d/50-metalk8s.conf"
RECORD = "etc/metalk8s/clock-keeper"
# As chronyc -c of Debian 12 printed it.
FOLLOWS = "0A4D0001,10.77.0.1,11,1795359725.0,-0.1,0.1,0.1,-0.2,-0.0,423.9,0.1,0.1,0.0,Normal\n"
ALONE = "7F7F0101,,10,1795359719.4,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,Normal\n"
LOST = "00000000,,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n"
SOURCES = "^,*,10.77.0.1,10,4,7,0,0.1,0.1,0.1\n^,?,192.0.2.7,0,6,0,4294967295,0.0,0.0,0.0\n"
CHOICES = (
    "*,10.77.0.1,N,-,-,-,-,-,-,-,-,-,-,5,1.0,-0.1,0.1,Normal\n"
    "M,192.0.2.7,N,-,P,-,-,-,-,P,-,-,-,0,1.0,0.0,0.0,Not synchronised\n"
)
DEBIAN = "pool 2.debian.pool.ntp.org iburst\nkeyfile /etc/chrony/chrony.keys\n"


class Machine:
    """A root of its own, and programs that answer from files beside it."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.said = folder / "root", folder / "said"
        programs = folder / "bin"
        for path in (self.root, self.said, programs):
            path.mkdir()
        scripts = {
            "systemctl": 'grep -qxF "$2 $3" "$SAID/units"',
            "chronyc": 'echo "$*" >> "$SAID/asked"; for last; do :; done; cat "$SAID/$last"',
            "timedatectl": 'cat "$SAID/timedatectl"',
        }
        for name, script in scripts.items():
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        self.say(units="")
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        monkeypatch.setenv("SAID", str(self.said))
        self.module = load("_modules/metalk8s_clock")
        self.module.ROOT = str(self.root)

    def say(self, **texts: str) -> None:
        """Let programs say something: ``units``, ``tracking``, ``sources``, ``selectdata``."""
        for name, text in texts.items():
            (self.said / name).write_text(text)

    def put(self, files: dict[str, str]) -> None:
        """Write files below its root."""
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def other(self, *, is_asked: bool = False) -> str:
        """Say who keeps the clock in place of ours."""
        found = self.module.others(str(self.root / UNIT), str(self.root / RECORD), is_asked)
        return "".join(found)


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


TIMESYNCD = "is-enabled systemd-timesyncd.service\n"
CHRONY = "is-enabled chrony.service\nis-active chrony.service\n"
OTHERS: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "nothing": ({}, {}, ""),
    "chosen": ({"units": "is-enabled ntpsec.service\n"}, {}, "ntpsec"),
    "started by hand": ({"units": "is-active openntpd.service\n"}, {}, "openntpd"),
    "default": (
        {"units": TIMESYNCD},
        {"etc/systemd/timesyncd.conf": "[Time]\n#NTP=192.0.2.1\nFallbackNTP=x.example\nNTP=\n"},
        "",
    ),
    "default that works": (
        {"units": TIMESYNCD},
        {"run/systemd/timesync/synchronized": ""},
        "systemd-timesyncd",
    ),
    "default that was left alone": (
        {"units": TIMESYNCD},
        {RECORD: "# ours\nsystemd-timesyncd\n"},
        "systemd-timesyncd",
    ),
    "another was left alone": ({"units": TIMESYNCD}, {RECORD: "# ours\nchrony\n"}, ""),
    "configured": (
        {"units": TIMESYNCD},
        {"etc/systemd/timesyncd.conf.d/site.conf": "[Time]\nNTP=192.0.2.1\n"},
        "systemd-timesyncd",
    ),
    "chrony as it comes": (
        {"units": CHRONY, "tracking": LOST},
        {"etc/chrony/chrony.conf": DEBIAN},
        "",
    ),
    "chrony that does not answer": ({"units": CHRONY}, {"etc/chrony/chrony.conf": DEBIAN}, ""),
    "chrony that works": (
        {"units": CHRONY, "tracking": FOLLOWS},
        {"etc/chrony/chrony.conf": DEBIAN},
        "chrony",
    ),
    "chrony of the site": (
        {"units": CHRONY, "tracking": LOST},
        {"etc/chrony/chrony.conf": "  server 192.0.2.1 iburst\n"},
        "chrony",
    ),
    "chrony of EL": (
        {"units": "is-enabled chronyd.service\n", "tracking": LOST},
        {"etc/chrony.conf": "#server 192.0.2.1\n", "etc/chrony.d/a.conf": "pool ntp.example\n"},
        "chronyd",
    ),
    "a clock of the hypervisor": (
        {"units": CHRONY, "tracking": LOST},
        {"etc/chrony/conf.d/a.conf": "refclock PHC /dev/ptp0 poll 2\n"},
        "chrony",
    ),
    "servers by DHCP": (
        {"units": CHRONY, "tracking": LOST},
        {"run/chrony-dhcp/eth0.sources": "server 192.0.2.1 iburst\n"},
        "chrony",
    ),
    "ours": ({"units": f"{CHRONY}is-active ntp.service\n", "tracking": LOST}, {UNIT: ""}, ""),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_time_service(machine: Machine, name: str) -> None:
    """Whoever chose, configured or uses one keeps it; what a distribution brings does not count."""
    said, files, expected = OTHERS[name]
    machine.say(**said)
    machine.put(files)
    assert machine.other() == expected
    works = name in ("default that works", "default that was left alone", "chrony that works")
    assert machine.other(is_asked=True) == ("" if works else expected), "the site named servers"


WORDS = st.text(st.characters(codec="ascii", exclude_characters="\r\n"), max_size=20)
COMMENTS = st.builds("{}{}".format, st.sampled_from(["#", "!", ";", "%", "  # "]), WORDS)
VENDORS = st.sampled_from(
    [
        "pool 2.debian.pool.ntp.org iburst",
        "\tserver 0.rhel.pool.ntp.org.",
        "NTP=",
        "keyfile server x",
    ]
)
SITES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", " ", "\t"]),
    st.sampled_from(["server ", "pool\t", "peer  ", "refclock ", "NTP=", "NTP = "]),
    st.sampled_from(["192.0.2.1", "ntp.example", "pool.ntp.org.example", "PHC"]),
    st.sampled_from(["", " iburst", " # why"]),
)


@given(st.lists(COMMENTS | VENDORS, max_size=8), st.lists(SITES, max_size=2), st.randoms())
def test_whoever_is_named_besides_the_vendor_counts(
    tmp_path_factory: pytest.TempPathFactory, rest: list[str], sites: list[str], chance: Any
) -> None:
    """In any order, among comments and servers of the vendor."""
    module = load("_modules/metalk8s_clock")
    module.ROOT = str(tmp_path_factory.mktemp("root"))
    lines = [*rest, *sites]
    chance.shuffle(lines)
    pathlib.Path(module.ROOT, "etc").mkdir()
    pathlib.Path(module.ROOT, "etc/chrony.conf").write_text("\n".join(lines))
    assert module._has_servers("chronyd") is bool(sites)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, True),
        ({"proc/1/status": "CapInh:\t0\nCapBnd:\t000001ffffffffff\n"}, True),
        ({"proc/1/status": "CapBnd:\t000001fffdffffff\n"}, False),
        ({"run/systemd/container": "docker"}, False),
    ],
)
def test_whose_clock_it_is(machine: Machine, files: dict[str, str], *, expected: bool) -> None:
    """That of a container is its host's, and without the capability nobody sets one."""
    machine.put(files)
    assert machine.module.is_free() is expected


STATUS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "nobody": ({}, {"keeper": "", "synchronised": None}),
    "chrony": (
        {"units": CHRONY, "tracking": FOLLOWS, "sources": SOURCES, "selectdata": CHOICES},
        {
            "keeper": "chrony",
            "synchronised": True,
            "stratum": 11,
            "sources": {"10.77.0.1": True, "192.0.2.7": False},
            "preferred": ["192.0.2.7"],
        },
    ),
    "alone": (
        {"units": CHRONY, "tracking": ALONE, "sources": "", "selectdata": ""},
        {
            "keeper": "chrony",
            "synchronised": True,
            "stratum": 10,
            "sources": {},
            "preferred": [],
        },
    ),
    "lost": (
        {"units": CHRONY, "tracking": LOST, "sources": SOURCES, "selectdata": CHOICES},
        {
            "keeper": "chrony",
            "synchronised": False,
            "stratum": 0,
            "sources": {"10.77.0.1": True, "192.0.2.7": False},
            "preferred": ["192.0.2.7"],
        },
    ),
    "dumb": ({"units": CHRONY}, {"keeper": "chrony", "synchronised": None}),
    "odd": ({"units": CHRONY, "tracking": "506 Cannot\n"}, {"keeper": "chrony"}),
    "other": (
        {"units": "is-active ntp.service\n", "timedatectl": "yes\n"},
        {"keeper": "ntp", "synchronised": True},
    ),
    "other, lost": (
        {"units": "is-active ntp.service\n", "timedatectl": "no\n"},
        {"keeper": "ntp", "synchronised": False},
    ),
    "other, dumb": (
        {"units": "is-active ntp.service\n"},
        {"keeper": "ntp", "synchronised": None},
    ),
}


@pytest.mark.parametrize("name", STATUS)
def test_status(machine: Machine, name: str) -> None:
    """What chrony says, or the kernel of another's work."""
    said, expected = STATUS[name]
    machine.say(**said)
    expected = {"is_ours": False, "is_free": True, "synchronised": None, **expected}
    assert machine.module.status() == expected
    machine.put({UNIT: ""})
    machine.put({"run/systemd/container": "docker\n"})
    assert machine.module.status() == {**expected, "is_ours": True, "is_free": False}


# -- the state -------------------------------------------------------------------------------------
def state(machine: Machine, *, test: bool = False) -> types.ModuleType:
    functions = {"metalk8s_clock.sources": machine.module.sources}
    return load("_states/metalk8s_clock", salt=functions, opts={"test": test})


def test_sources_are_loaded_when_they_are_others(machine: Machine) -> None:
    """And only then; in a test, nothing is."""
    machine.say(sources=SOURCES)
    same = state(machine).sources_loaded("x", ["192.0.2.7", "10.77.0.1"])
    assert (same["result"], same["changes"]) == (True, {})
    machine.put({})
    wanted = ["10.77.0.1", "10.77.0.2"]
    foretold = state(machine, test=True).sources_loaded("x", wanted)
    assert (foretold["result"], foretold["changes"]["new"]) == (None, wanted)
    assert "reload" not in (machine.said / "asked").read_text()


@pytest.mark.parametrize("works", [True, False])
def test_sources_are_asked_for_afterwards(machine: Machine, *, works: bool) -> None:
    """What chrony says in the end decides."""
    new = SOURCES.replace("192.0.2.7", "10.77.0.2")
    machine.say(sources=SOURCES)
    chronyc = pathlib.Path(machine.said.parent, "bin/chronyc")
    reload = f"printf '{new}' > \"$SAID/sources\"" if works else "echo 501 Not authorised"
    chronyc.write_text(
        f'#!/bin/sh\nif [ "$*" = "reload sources" ]; then {reload}; else cat "$SAID/sources"; fi\n'
    )
    answer = state(machine).sources_loaded("x", ["10.77.0.1", "10.77.0.2"])
    assert answer["result"] is works
    assert bool(answer["changes"]) is works
    assert works or "501 Not authorised" in answer["comment"]


def test_units_are_those_of_the_parameters() -> None:
    """What is asked for here is what the states write."""
    module = load("_modules/metalk8s_clock")
    for family in ("debian", "redhat"):
        text = (STATES / f"metalk8s/parameters/os_family/{family}.yaml").read_text("utf-8")
        [drop_in] = [line.split()[1] for line in text.splitlines() if "drop_in:" in line]
        assert pathlib.PurePath(drop_in).match(f"/{module.DROP_INS}")
