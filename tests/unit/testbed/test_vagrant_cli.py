from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.testbed import vagrant_cli


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            vagrant_cli.argv_for_up("vagrant", "m", ["--provision", "--provider", "docker"]),
            ["vagrant", "up", "--provision", "--provider", "docker", "m"],
        ),
        (
            vagrant_cli.argv_for_bare_up("v", "m", "libvirt"),
            ["v", "up", "--no-provision", "--no-destroy-on-error", "--provider", "libvirt", "m"],
        ),
        (vagrant_cli.argv_for_halt("v", "m"), ["v", "halt", "m"]),
        (vagrant_cli.argv_for_destroy("v", "m"), ["v", "destroy", "--force", "m"]),
        (vagrant_cli.argv_for_status("v", "m"), ["v", "status", "--machine-readable", "m"]),
        (vagrant_cli.argv_for_save("v", "m", "s"), ["v", "snapshot", "save", "--force", "m", "s"]),
        (
            vagrant_cli.argv_for_restore("v", "m", "s"),
            ["v", "snapshot", "restore", "--no-provision", "m", "s"],
        ),
        (vagrant_cli.argv_for_snapshots("v", "m"), ["v", "snapshot", "list", "m"]),
        (vagrant_cli.argv_for_plugins("v"), ["v", "plugin", "list"]),
        (
            vagrant_cli.argv_for_key(Path("/k"), "c"),
            ["ssh-keygen", "-q", "-t", "rsa", "-b", "4096", "-m", "PEM", "-N", "", "-C", "c",
             "-f", Path("/k")],
        ),
    ],
)  # fmt: skip
def test_arguments(argv, expected):
    assert argv == expected


@pytest.mark.parametrize(
    ("arguments", "provider"),
    [
        ([], ""),
        (["--provision"], ""),
        (["--provider", "docker"], "docker"),
        (["--provider=libvirt", "--parallel"], "libvirt"),
        (["--provider", "docker", "--provider=libvirt"], "libvirt"),
        (["--provider"], ""),
    ],
)
def test_provider_in(arguments, provider):
    assert vagrant_cli.provider_in(arguments) == provider


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ([], ["--provision", "--provider", "docker"]),
        (["--no-parallel"], ["--no-parallel", "--provider", "docker"]),
        (["--provider=libvirt"], ["--provider=libvirt"]),
    ],
)
def test_up_arguments(configured, expected):
    assert vagrant_cli.up_arguments(configured, ["--provision"], "docker") == expected


STATUS = """\
1700000000,bootstrap,metadata,provider,docker
1700000000,other,state,running
1700000000,bootstrap,state,not_created
1700000000,bootstrap,state-human-short,not created
"""


def test_state():
    assert vagrant_cli.parse_state(STATUS, "bootstrap") == vagrant_cli.NOT_CREATED
    assert vagrant_cli.parse_state(STATUS, "other") == "running"
    assert vagrant_cli.parse_state(STATUS, "none") == ""


@given(st.text())
def test_no_text_breaks_the_parsers(text):
    assert isinstance(vagrant_cli.parse_state(text, "m"), str)
    assert isinstance(vagrant_cli.has_plugin(text, "m"), bool)


def test_has_plugin():
    text = "vagrant-libvirt (0.11.2, global)\nvagrant-x (1.0, local)\n"
    assert vagrant_cli.has_plugin(text, "vagrant-libvirt")
    assert not vagrant_cli.has_plugin(text, "vagrant-lib")
