"""Who keeps the clock of a machine, and whom it follows."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import CLOCKS, PLATFORMS
from .test_tree import HEADER

pytestmark = pytest.mark.render

CONFIG, FOLDER = "/etc/chrony/metalk8s.conf", "/etc/chrony/metalk8s"
SOURCES, START = f"{FOLDER}/clock.sources", f"{FOLDER}/start.conf"
UNITS = {"debian-12": "chrony", "el-8": "chronyd", "el-9": "chronyd"}
each_platform = pytest.mark.parametrize("platform", PLATFORMS)


def drop_in(platform: str) -> str:
    return f"/etc/systemd/system/{UNITS[platform]}.service.d/50-metalk8s.conf"


def states(rendered: dict[str, Any], platform: str, name: str, sls: str = "clock") -> list[Any]:
    """Return those of the clock itself, in their order."""
    machine = rendered[f"{platform} clock {name}"]
    assert machine["errors"] == []
    found = machine["sls"][f"metalk8s.{sls}"]
    assert found["errors"] == []
    assert [state["unknown"] for state in found["states"] if state["unknown"]] == []
    return [state for state in found["states"] if state["sls"].startswith(f"metalk8s.{sls}")]


def files(rendered: dict[str, Any], platform: str, name: str, sls: str = "clock") -> dict[str, str]:
    """Return path → lines without comments, of each file."""
    found = {}
    for state in states(rendered, platform, name, sls):
        if "file" in state:
            text = state["file"]["text"]
            assert HEADER[2:] in text.splitlines()[0]
            lines = [line for line in text.splitlines() if not line.startswith("#")]
            found[state["file"]["path"]] = "".join(f"{line}\n" for line in lines)
    return found


@each_platform
@pytest.mark.parametrize("name", CLOCKS)
def test_no_file_is_there_that_says_nothing_of_us(
    rendered: dict[str, Any], platform: str, name: str
) -> None:
    """All files of ours or none; and ours are there before the package starts the service."""
    found = files(rendered, platform, name)
    is_ours = name not in ("site", "unmanaged")
    assert set(found) == ({CONFIG, SOURCES, START, drop_in(platform)} if is_ours else set())
    order = [state["function"] for state in states(rendered, platform, name)]
    assert ("pkg.installed" in order) is is_ours
    if is_ours:
        last = len(order) - 1 - order[::-1].index("file.managed")
        assert last < order.index("pkg.installed") < order.index("service.running")


@each_platform
def test_a_master_alone(rendered: dict[str, Any], platform: str) -> None:
    """It follows nobody and serves the networks of the control plane."""
    found = files(rendered, platform, "alone")
    lines = found[CONFIG].splitlines()
    assert found[SOURCES] == found[START] == ""
    assert "local stratum 10 orphan distance 0.1" in lines
    assert "bindaddress 10.100.0.2" in lines
    assert [line for line in lines if line.startswith("allow")] == [
        "allow 10.99.0.0/24",
        "allow 10.100.0.0/24",
    ]


@each_platform
def test_masters_ask_the_site_and_each_other(rendered: dict[str, Any], platform: str) -> None:
    """The site's servers first; at the start all of them, before anybody is served."""
    found = files(rendered, platform, "asks")
    assert found[SOURCES].splitlines() == [
        "server 192.0.2.7 iburst prefer",
        "server 192.0.2.8 iburst prefer",
        "server 10.100.0.5 iburst minpoll 4 maxpoll 6",
        "server 10.100.0.7 iburst minpoll 4 maxpoll 6",
    ]
    assert found[START] == "initstepslew 1 192.0.2.7 192.0.2.8 10.100.0.5 10.100.0.7\n"
    assert f"confdir {FOLDER}\n" in found[CONFIG]


@each_platform
@pytest.mark.parametrize("name", ["follows", "stores"])
def test_others_follow_the_masters(rendered: dict[str, Any], platform: str, name: str) -> None:
    """And serve nobody; who is not a master does not ask the site's servers."""
    found = files(rendered, platform, name)
    assert found[START] == ""
    assert [line.split()[1] for line in found[SOURCES].splitlines()] == ["10.100.0.5", "10.100.0.7"]
    lines = found[CONFIG].splitlines()
    assert "port 0" in lines
    assert not [line for line in lines if line.startswith(("allow", "local", "confdir"))]
    [loaded] = [
        state["arguments"]["addresses"]
        for state in states(rendered, platform, name)
        if state["function"] == "metalk8s_clock.sources_loaded"
    ]
    assert loaded == ["10.100.0.5", "10.100.0.7"]


@each_platform
def test_who_may_not_set_the_clock_does_not(rendered: dict[str, Any], platform: str) -> None:
    """A container's is its host's: chrony compares and serves it."""
    path = drop_in(platform)
    free, bound = (files(rendered, platform, name)[path] for name in ("asks", "container"))
    assert free.endswith(f'-f {CONFIG}"\n')
    assert bound.endswith(f'-f {CONFIG} -x"\n')
    assert ("ConditionCapability=\n" in free, "ConditionCapability=\n" in bound) == (False, True)


@each_platform
@pytest.mark.parametrize("name", CLOCKS)
def test_the_port_is_open_where_it_is_served(
    rendered: dict[str, Any], platform: str, name: str
) -> None:
    """Elsewhere it is not ours, and our rules say nothing of it."""
    rules = files(rendered, platform, name, "firewall")["/etc/metalk8s/firewall/ports.nft"]
    is_served = name in ("alone", "asks", "container")
    assert ("udp dport 123 ip saddr 10.100.0.0/24 accept" in rules) is is_served
    assert ("udp dport 123" in rules) is is_served


@each_platform
def test_another_time_service_is_left_alone(rendered: dict[str, Any], platform: str) -> None:
    """What is ours is one file that says so."""
    [state] = states(rendered, platform, "site")
    assert state["arguments"]["name"] == "/etc/metalk8s/clock-keeper"
    assert state["arguments"]["contents"] == [HEADER, "ntpsec"]


@each_platform
def test_a_clock_that_is_not_ours_any_more(rendered: dict[str, Any], platform: str) -> None:
    """It is taken back as when MetalK8s leaves: where it was ours, and no further."""
    now = states(rendered, platform, "unmanaged")
    assert [state["id"] for state in now] == [
        state["id"] for state in states(rendered, platform, "unmanaged", "clock.absent")
    ]
    purged = now[0]
    assert purged["function"] == "pkg.purged"
    assert purged["arguments"]["onlyif"] == f"test -e {drop_in(platform)}"
    assert purged["arguments"]["unless"] == f"test -e {FOLDER}/found"
    given_back = [state["id"] for state in now if "timesyncd" in str(state["arguments"])]
    assert len(given_back) == (platform == "debian-12")
