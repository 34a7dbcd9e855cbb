"""What Knot and Unbound are told is what they understand."""

from __future__ import annotations

import subprocess
from ipaddress import IPv4Address, ip_address

import pytest
from conftest import lacking
from metalk8s_dns import configuration, resolvers, settings
from metalk8s_dns.__main__ import main

WORDS = [
    *("configure", "--domain=Cluster.Local", "--server=10.96.0.10", "--network=10.96.0.0/12"),
    *(
        "--network=10.233.0.0/16",
        "--authority-port=5354",
        "--cache-port=5353",
        "--health-port=5355",
    ),
]
SITES = ["--site=corp.example=10.0.0.1,10.0.0.2", "--site=168.192.in-addr.arpa.=fd00::1"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nameserver 10.0.0.1\nnameserver 10.0.0.2\n", ["10.0.0.1", "10.0.0.2"]),
        ("# nameserver 10.0.0.1\nsearch example.com\noptions ndots:5\n", []),
        ("nameserver\t10.0.0.1 # first\nnameserver 10.0.0.1\n", ["10.0.0.1"]),
        ("nameserver fd00::1\nnameserver fe80::1%eth0\n", ["fd00::1"]),
        ("nameserver 127.0.0.53\nnameserver ::1\nnameserver 10.96.0.10\n", []),
        ("nameserver\nnameserver example.com\n", []),
        ("", []),
    ],
)
def test_resolvers_of_the_machine(text, found):
    """None that would ask us: a question would go round until somebody is tired."""
    assert list(map(str, resolvers.read(text, [IPv4Address("10.96.0.10")]))) == found


def test_the_command_line(capsys):
    found = settings.read([*WORDS, *SITES])
    assert (found.action, found.domain, len(found.reverse_zones)) == (
        "configure",
        "cluster.local.",
        17,
    )
    assert [(one.zone, list(map(str, one.servers))) for one in found.sites] == [
        ("corp.example.", ["10.0.0.1", "10.0.0.2"]),
        ("168.192.in-addr.arpa.", ["fd00::1"]),
    ]
    for wrong in ("--site=a b=10.0.0.1", "--site=a=", "--site=a=here", "--domain=a..b"):
        with pytest.raises(SystemExit):
            settings.read([*WORDS, wrong])


def test_zones_do_not_hide_each_other():
    words = [*WORDS, "--network=10.233.4.0/24", "--network=10.96.7.0/26"]
    assert settings.read(words).reverse_zones == settings.read(WORDS).reverse_zones


@pytest.mark.parametrize("servers", [(), (ip_address("10.0.0.1"), ip_address("fd00::1"))])
@pytest.mark.parametrize("sites", [[], SITES])
def test_both_understand_it(servers, sites, tmp_path, capsys):
    folders = [f"--authority={tmp_path}", f"--cache={tmp_path}", "--header=Generated."]
    chosen = settings.read([*WORDS, *folders, *sites])
    knot, unbound = configuration.authority(chosen), configuration.cache(chosen, servers)
    assert knot.startswith("# Generated.\n")
    assert unbound.startswith("# Generated.\n")
    assert ("always_refuse" in unbound) == (not servers)
    assert unbound.count("forward-addr: ") == len(servers) + (3 if sites else 0)
    if lacking():
        pytest.skip(f"needs {', '.join(lacking())}")
    for name, text in (("knot", knot), ("unbound", unbound)):
        (tmp_path / f"{name}.conf").write_text(text)
    for words in (
        ["knotc", "-c", tmp_path / "knot.conf", "conf-check"],
        ["unbound-checkconf", tmp_path / "unbound.conf"],
    ):
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_it_is_written_where_both_look(tmp_path, capsys):
    for name in ("a", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "resolv.conf").write_text("nameserver 10.0.0.1\n")
    words = [f"--authority={tmp_path}/a", f"--cache={tmp_path}/c"]
    for _ in range(2):
        assert main([*WORDS, *words, f"--resolvers={tmp_path}/resolv.conf"]) == 0
    assert sorted(path.name for path in tmp_path.rglob("*.conf")) == [
        "knot.conf",
        "resolv.conf",
        "unbound.conf",
    ]
    assert "forward-addr: 10.0.0.1\n" in (tmp_path / "c/unbound.conf").read_text()
    (tmp_path / "resolv.conf").write_text("search example.com\n")
    assert main([*WORDS, *words, f"--resolvers={tmp_path}/resolv.conf"]) == 0
    assert "other names are refused" in capsys.readouterr().err
