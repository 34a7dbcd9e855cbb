"""The media that this machine serves, as whoever lets other machines in needs them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import yaml

MOUNTS = pathlib.Path("/srv/scality")
# What is run on machines that join.
SCRIPTS = {
    "common.sh": "salt://metalk8s/enrolment/files/common.sh",
    "install-debian.sh": "salt://metalk8s/enrolment/files/install-debian.sh",
    "install-redhat.sh": "salt://metalk8s/enrolment/files/install-redhat.sh",
    "keys.py": "salt://metalk8s/enrolment/files/keys.py",
    "start.sh": "salt://metalk8s/enrolment/files/start.sh",
    "survey.sh": "salt://metalk8s/enrolment/files/survey.sh",
}


def served() -> list[str]:
    """Return the versions of MetalK8s that there are media of, sorted; none elsewhere."""
    files = sorted(MOUNTS.glob("metalk8s-*/salt/metalk8s/versions.json"))
    return [json.loads(file.read_text(encoding="utf-8"))["metalk8s"]["version"] for file in files]


def known(version: str) -> dict[str, Any]:
    """Return what the states of a version know here; of the last one when that is not served.

    :return: the value of ``map.jinja``; empty without any medium.
    """
    there = served()
    if not there:
        return {}
    environment = f"metalk8s-{version if version in there else there[-1]}"
    found: dict[str, Any] = __salt__["metalk8s_map.known"](environment)
    return found


def script(name: str, known: dict[str, Any]) -> str:
    """Return one of our scripts, of the version that the machine gets.

    :raises FileNotFoundError: the Salt master does not have it.
    """
    text = __salt__["cp.get_file_str"](SCRIPTS[name], saltenv=f"metalk8s-{known['version']}")
    if not text:
        raise FileNotFoundError(f"{SCRIPTS[name]} is not among the states of {known['version']}")
    return str(text)


def scripts(known: dict[str, Any]) -> dict[str, str]:
    """Return all our scripts, by name."""
    return {name: script(name, known) for name in SCRIPTS}


def packages(root: str) -> dict[str, dict[str, str]]:
    """Return the versions of a medium's packages, by family and name.

    :param root: where it is mounted.
    """
    return {
        family: {
            name: "-".join(build[part] for part in ("version", "release") if part in build)
            for name, build in found.items()
        }
        for family, found in _versions(root)["packages"].items()
    }


def releases(root: str) -> dict[str, list[str]]:
    """Return the releases of each family that a medium has a repository for."""
    found = {}
    for family in packages(root):
        parameters = _parameters(root, family)
        repo = parameters["repo"]
        found[family] = [
            release
            for release in parameters["supported_releases"]
            if (pathlib.Path(root) / repo["path"].format(release=release) / repo["index"]).is_file()
        ]
    return found


def repository(root: str, family: str, release: str, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return what a machine has to be told of its repository.

    :param defaults: the parameters ``repo``, of whatever family.
    :return: those of the family, ``path`` for the release, and ``keys``: name of each file → the
        public key in it, ours first.
    """
    repo = {**defaults, **_parameters(root, family)["repo"]}
    names = ["keys/metalk8s.asc"]
    names += _versions(root).get("signing_keys", {}).get(family, {}).get(release, [])
    files = [pathlib.Path(root) / name for name in names]
    # As the pillar calls them: a key of the same name may be in the folder of each release.
    short = [name.removeprefix("keys/").replace("/", "-") for name in names]
    texts = [file.read_text(encoding="ascii") for file in files]
    keys = dict(zip(short, texts, strict=True))
    return {**repo, "path": repo["path"].format(release=release), "keys": keys}


def _versions(root: str) -> dict[str, Any]:
    file = pathlib.Path(root) / "salt/metalk8s/versions.json"
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def _parameters(root: str, family: str) -> dict[str, Any]:
    file = pathlib.Path(root) / f"salt/metalk8s/parameters/os_family/{family}.yaml"
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found
