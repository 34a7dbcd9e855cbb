"""The system's SSH client, towards a machine that is to join: one script, and what came of it.

Nothing of the caller's configuration or agent counts: only what the Node says, and which host keys
are known. Whoever is asked gets a script as its standard input, so nothing of it is in a list of
processes.
"""

from __future__ import annotations

import re
import subprocess
import time
from typing import Any

CLIENT = "ssh"
KNOWN_HOSTS = "/etc/metalk8s/pki/known_hosts"
CONNECT = 10  # seconds until the other side has to answer
ALIVE = 15  # seconds of silence after which the connection is tried, three times
ENVIRONMENT = {
    "LC_ALL": "C",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
TAIL = 5  # lines of what a failed script said
# What the client says when it fails itself, and what that means; the first that fits.
OF_CLIENT = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed",
        "shows another SSH host key than the one that is known of it: it was installed anew, or is "
        "another machine. Look at the key there (ssh-keygen -lf "
        "/etc/ssh/ssh_host_ed25519_key.pub). If it is the right machine, forget the old key "
        "(remove-node.sh --dead {name}), or correct the annotation ssh-host-key",
    ),
    (
        r"UNPROTECTED PRIVATE KEY|error in libcrypto|invalid format|incorrect passphrase",
        "was not asked: ssh cannot use the key {key}. It has to be a private key without a "
        "passphrase that only root reads",
    ),
    (
        r"Permission denied|Too many authentication failures",
        "does not let {user} in with the key {key}. Add {key}.pub to {user}'s authorized_keys "
        "there; a key with a passphrase is of no use",
    ),
    (
        r"Connection refused",
        "refuses connections on port {port}. Start its SSH server, or correct ssh-port",
    ),
    (
        r"timed out|Timeout, server",
        "does not answer on port {port}. Start it, let port {port} through, or correct ssh-host",
    ),
    (
        r"No route to host|Network is unreachable",
        "cannot be reached from here: no route. Start it, or correct ssh-host",
    ),
    (
        r"Connection (closed|reset)|kex_exchange_identification|banner exchange",
        "ends the connection before anybody is let in. Look at the log of its SSH server",
    ),
)
# What sudo says, and the shell that looks for it.
OF_SUDO = (
    (
        r"sudo: .*(password is required|terminal is required|askpass)",
        "does not let {user} become root without a password. Allow it there "
        "({user} ALL=(ALL) NOPASSWD: ALL in /etc/sudoers.d), or name root as ssh-user",
    ),
    (
        r"sudo: (command )?not found",
        "has no sudo. Install it there, or name root as ssh-user and ssh-sudo 'false'",
    ),
    (
        r"not in the sudoers file|is not allowed to|may not run sudo",
        "does not let {user} use sudo. Allow it there in /etc/sudoers.d",
    ),
)
OF_CLIENT_STATUS = 255


def argv(target: dict[str, Any], known_hosts: str = KNOWN_HOSTS) -> list[str]:
    """Return the command that runs a script on another machine.

    :param target: ``name``, ``address``, ``port``, ``user``, ``key``, ``sudo``, and ``strict``:
        whether a machine of which no host key is known is refused.
    :param known_hosts: file of host keys, which stand there by the name of the machine.
    """
    options = {
        "BatchMode": "yes",
        "CheckHostIP": "no",
        "ConnectTimeout": CONNECT,
        "GlobalKnownHostsFile": "/dev/null",
        "HashKnownHosts": "no",
        # An address may be another machine's tomorrow; the key belongs to the name.
        "HostKeyAlias": target["name"],
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "LogLevel": "ERROR",
        "PreferredAuthentications": "publickey",
        "ServerAliveInterval": ALIVE,
        "StrictHostKeyChecking": "yes" if target["strict"] else "accept-new",
        "UpdateHostKeys": "no",
        "UserKnownHostsFile": known_hosts,
    }
    words = [CLIENT, "-F", "/dev/null", "-T"]
    words += [f"-o{name}={value}" for name, value in options.items()]
    words += ["-i", target["key"], "-p", str(target["port"]), "-l", target["user"]]
    return [*words, target["address"], "sudo -n sh -s" if target["sudo"] else "sh -s"]


def run(
    target: dict[str, Any], script: str, timeout: int = 60, known_hosts: str = KNOWN_HOSTS
) -> dict[str, Any]:
    """Run a POSIX shell script on another machine.

    :param target: as for ``argv``.
    :param timeout: seconds for all of it.
    :return: ``output``, ``began`` and ``ended`` (seconds since 1970), and ``failed``: a sentence,
        empty when the script ended well.
    """
    began = time.time()
    answer: dict[str, Any] = {"output": "", "failed": ""}
    try:
        done = subprocess.run(
            argv(target, known_hosts),
            input=script,
            capture_output=True,
            timeout=timeout,
            encoding="utf-8",
            errors="replace",
            env=ENVIRONMENT,
            check=False,
        )
        answer["output"] = done.stdout
        if done.returncode:
            answer["failed"] = meaning(target, done.returncode, done.stderr)
    except FileNotFoundError:
        answer["failed"] = "This machine has no ssh: install openssh-client (EL: openssh-clients)."
    except subprocess.TimeoutExpired:
        answer["failed"] = _sentence(target, f"did not end what it was asked within {timeout} s")
    return {**answer, "began": began, "ended": time.time()}


def meaning(target: dict[str, Any], status: int, said: str) -> str:
    """Say in a sentence why a script did not end well.

    :param status: exit status of the client: 255 is its own, others are the script's.
    :param said: what it and the script wrote to standard error.
    """
    for pattern, words in OF_CLIENT if status == OF_CLIENT_STATUS else OF_SUDO:
        if re.search(pattern, said):
            return _sentence(target, words.format(**target))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = "; ".join(lines[-TAIL:]) or "it said nothing"
    return _sentence(target, f"failed what it was asked (status {status}): {last}")


def _sentence(target: dict[str, Any], words: str) -> str:
    return f"{target['name']} ({target['address']}) {words}."
