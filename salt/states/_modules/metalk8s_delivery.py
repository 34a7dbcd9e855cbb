"""What is sent to a machine that joins: scripts with the files in them.

Pure: texts from texts. A script is one command in braces, so a shell that got only a part of it
does nothing.
"""

from __future__ import annotations

import shlex
from typing import Any

PACKAGE = "metalk8s-salt-minion"
LIBRARY = "/opt/metalk8s/salt/lib/python3.11/site-packages"
PYTHON = "python3.11"  # what the package's own commands name
KEYS = "/etc/metalk8s/keys"
APT = "/etc/apt/apt.conf.d/90-metalk8s"
FOLDERS = (
    ("0755", "/etc/metalk8s"),
    ("0755", KEYS),
    ("0755", "/etc/metalk8s/pki"),
    ("0755", "/etc/salt"),
    ("0755", "/etc/salt/minion.d"),
    ("0700", "/etc/salt/pki"),
    ("0700", "/etc/salt/pki/minion"),
)
MARK = "END_OF_WHAT_METALK8S_SENDS"


def script(*parts: str) -> str:
    """Join parts of a script into one that runs whole or not at all."""
    return "{\n" + "\n".join(parts) + "\n} </dev/null\n"


def variables(**values: str) -> str:
    """Set variables of the shell."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def folders() -> str:
    """Make the folders that files are put into."""
    return "".join(f"folder {mode} {path}\n" for mode, path in FOLDERS)


def put(mode: str, path: str, text: str) -> str:
    """Write a file, by the function of ``common.sh``.

    :raises ValueError: the shell would end the text elsewhere.
    """
    lines = text.splitlines()
    if MARK in lines or "\0" in text:
        raise ValueError(f"{path} cannot be sent: it has a line {MARK}, or a zero byte")
    body = "".join(f"{line}\n" for line in lines)
    return f"put {mode} {shlex.quote(path)} <<'{MARK}'\n{body}{MARK}\n"


def sources(family: str, site: dict[str, Any]) -> dict[str, str]:
    """Return the files by which a package manager trusts our repository and no other by it.

    :param site: ``generated`` (header), ``url`` of the repository, ``host`` that serves it,
        ``repo`` (as ``metalk8s_medium`` gives it), ``authority`` (path of the certificate).
    :return: path → text; as the states of the repository keep them.
    """
    repo = site["repo"]
    signers = [f"{KEYS}/{name}" for name in repo["keys"]]
    header = f"# {site['generated']}\n"
    if family == "debian":
        return {
            repo["source"]: (
                f"{header}Types: deb\nURIs: {site['url']}\nSuites: {repo['suite']}\n"
                f"Components: {' '.join(repo['components'])}\nSigned-By: {signers[0]}\n"
            ),
            APT: (
                f"// {site['generated']}\n"
                f'Acquire::https::{site["host"]}::CAInfo "{site["authority"]}";\n'
                f'Acquire::https::{site["host"]}::Proxy "DIRECT";\n'
            ),
        }
    keys = "\n       ".join(f"file://{key}" for key in signers)
    return {
        repo["source"]: (
            f"{header}[{repo['name']}]\nname={repo['description']}\nbaseurl={site['url']}\n"
            f"enabled=1\ngpgcheck=1\nrepo_gpgcheck=1\n"
            "# who signs the index and our packages, then who signs those of other people\n"
            f"gpgkey={keys}\nsslverify=1\nsslcacert={site['authority']}\n"
        )
    }


def installation(family: str, site: dict[str, Any], texts: dict[str, str]) -> str:
    """Return the script that installs the Salt minion.

    :param site: as for ``sources``; with ``versions`` of packages and ``files`` (path → text)
        that are there before it.
    :param texts: our scripts by name.
    """
    signers = {f"{KEYS}/{name}": text for name, text in site["repo"]["keys"].items()}
    files = {**signers, **site["files"], **sources(family, site)}
    return script(
        variables(
            package=PACKAGE,
            repository=site["repo"]["name"],
            source=site["repo"]["source"],
            version=site["versions"][PACKAGE],
        ),
        texts["common.sh"],
        folders(),
        *(put("0644", path, text) for path, text in files.items()),
        texts[f"install-{family}.sh"],
    )


def keys(folder: str, certificate: str, bits: int, texts: dict[str, str]) -> str:
    """Return the script that makes the keys and says their public halves.

    :param folder: of the minion's keys.
    :param certificate: path without suffix of that of its connections.
    """
    words = (PYTHON, "-I", "-", LIBRARY, folder, f"{certificate}.crt", str(bits))
    call = f"{shlex.join(words)} <<'{MARK}'\n{texts['keys.py']}\n{MARK}\n"
    return script(texts["common.sh"], folders(), call)


def start(service: str, files: dict[str, str], texts: dict[str, str]) -> str:
    """Return the script that starts the minion.

    :param files: path → text, which it needs.
    """
    return script(
        variables(service=service),
        texts["common.sh"],
        *(put("0644", path, text) for path, text in files.items()),
        texts["start.sh"],
    )
