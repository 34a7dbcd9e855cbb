"""Argument lists of Vagrant and what it prints.

Programs: ``vagrant``, ``ssh-keygen``. Options come before the names of machines: what a user wrote
in ``VAGRANT_UP_ARGS`` may end with one that takes a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PROVIDER_OPTION = "--provider"
NOT_CREATED = "not_created"
# Vagrant asks its makers about new releases of itself, unless told not to.
ENVIRONMENT = {"VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_NO_COLOR": "1"}


def up_arguments(configured: Sequence[str], default: Sequence[str], provider: str) -> list[str]:
    """Return the arguments of ``vagrant up``: the user's, or the default ones.

    :param configured: ``VAGRANT_UP_ARGS``, empty when unset.
    """
    arguments = [*(configured or default)]
    if not provider_in(arguments):
        arguments += [PROVIDER_OPTION, provider]
    return arguments


def provider_in(arguments: Sequence[str]) -> str:
    """Return the provider that arguments of ``vagrant up`` name, the last one if several."""
    found = ""
    for index, word in enumerate(arguments):
        if word == PROVIDER_OPTION:
            found = "".join(arguments[index + 1 : index + 2])
        elif word.startswith(f"{PROVIDER_OPTION}="):
            found = word.partition("=")[2]
    return found


def argv_for_up(binary: str, machine: str, arguments: Sequence[str]) -> list[str]:
    """Start a machine; makes it when there is none."""
    return [binary, "up", *arguments, machine]


def argv_for_bare_up(binary: str, machine: str, provider: str) -> list[str]:
    """Start a machine and leave it as it comes."""
    return [binary, "up", "--no-provision", "--no-destroy-on-error", PROVIDER_OPTION, provider,
            machine]  # fmt: skip


def argv_for_halt(binary: str, machine: str) -> list[str]:
    """Stop a machine; its disk stays."""
    return [binary, "halt", machine]


def argv_for_destroy(binary: str, machine: str) -> list[str]:
    """Remove a machine."""
    return [binary, "destroy", "--force", machine]


def argv_for_status(binary: str, machine: str) -> list[str]:
    """Print the state of a machine for :func:`parse_state`."""
    return [binary, "status", "--machine-readable", machine]


def parse_state(text: str, machine: str) -> str:
    """Return the state of a machine (``running``, ``not_created`` …), empty when not told.

    Each line is ``<seconds>,<machine>,<kind>,<value>…``.
    """
    for line in text.splitlines():
        _, *fields = line.split(",")
        if fields[:2] == [machine, "state"] and len(fields) > 2:
            return fields[2]
    return ""


def argv_for_save(binary: str, machine: str, name: str) -> list[str]:
    """Take a snapshot, in place of one of the same name."""
    return [binary, "snapshot", "save", "--force", machine, name]


def argv_for_restore(binary: str, machine: str, name: str) -> list[str]:
    """Go back to a snapshot and leave the machine as it was then."""
    return [binary, "snapshot", "restore", "--no-provision", machine, name]


def argv_for_snapshots(binary: str, machine: str) -> list[str]:
    """Print the names of a machine's snapshots, one a line."""
    return [binary, "snapshot", "list", machine]


def argv_for_plugins(binary: str) -> list[str]:
    """Print the plugins that are installed."""
    return [binary, "plugin", "list"]


def has_plugin(text: str, name: str) -> bool:
    """Tell from ``vagrant plugin list`` (``<name> (<version>, <where>)``) whether one is there."""
    return any(line.split(" ", 1)[0] == name for line in text.splitlines())


def argv_for_key(path: Path, comment: str) -> list[str | Path]:
    """Make an SSH key pair without a passphrase, ``<path>`` and ``<path>.pub``."""
    # In PEM: Vagrant's own SSH (net-ssh 7.0) cannot load OpenSSH's format with OpenSSL 3.
    return ["ssh-keygen", "-q", "-t", "rsa", "-b", "4096", "-m", "PEM", "-N", "", "-C", comment,
            "-f", path]  # fmt: skip
