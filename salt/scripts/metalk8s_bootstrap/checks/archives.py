"""The archives that a configuration names, before anything is changed."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from metalk8s_bootstrap import medium as media
from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject


def archives(subject: Subject) -> Iterator[Problem]:
    """Every archive is a medium of ours, each version is there once, and this one is among them."""
    configuration, is_clear = subject.configuration, True
    found: dict[str, str] = {}
    for index, path in enumerate(configuration.archives):
        key = f"archives[{index}]"
        version, what, remedy = _archive(subject, path)
        where = configuration.place(key)
        if what:
            is_clear = False
            yield Problem(Group.ARCHIVES, where, f"{key}: {path} {what}", remedy)
        elif version in found:
            what = f"{key}: {path} is version {version}, and so is {found[version]}"
            yield Problem(Group.ARCHIVES, where, what, "Name one of them.")
        else:
            found[version] = path
            yield from _mounted(subject, where, path, version)
    wanted = subject.medium.version
    if configuration.archives and is_clear and wanted not in found:
        what = f"archives: none has version {wanted}, the version of bootstrap.sh"
        remedy = "Name the ISO that holds this bootstrap.sh."
        yield Problem(Group.ARCHIVES, configuration.place("archives"), what, remedy)


def _archive(subject: Subject, path: str) -> tuple[str, str, str]:
    """Return the version of an archive, or what is wrong with it and what to do."""
    file, name = subject.machine.root / path.lstrip("/"), subject.medium.product["NAME"]
    remedy = "Name an ISO image of this product."
    try:
        if stat.S_ISDIR(file.stat().st_mode):
            return _folder(file, path, name)
        found, version = media.volume(file)
    except FileNotFoundError:
        return "", "is not there", "Copy the ISO there, or correct the path."
    except OSError as error:
        return "", f"cannot be read: {error.strerror}", remedy
    except ValueError as error:
        return "", str(error), remedy
    if found != name:
        return "", f"is an image of something else ({found} {version})", remedy
    return version, "", ""


def _folder(folder: Path, path: str, name: str) -> tuple[str, str, str]:
    product = media.Medium(folder)
    try:
        facts = product.product
    except OSError:
        return "", "is a folder without product.txt", "Name an ISO image, or its mounted tree."
    version = facts.get("VERSION", "")
    if facts.get("NAME") != name or not version:
        return "", "is a folder of something else", "Name an ISO image of this product."
    if path != media.place(version):
        remedy = f"Mount it at {media.place(version)}, or name the ISO image itself."
        return "", "is a folder, but not the place of that version", remedy
    return version, "", ""


def _mounted(subject: Subject, where: str, path: str, version: str) -> Iterator[Problem]:
    """Whatever is at an image's place already is that version."""
    place = media.place(version)
    there = subject.machine.root / place.lstrip("/")
    if path == place or not there.is_dir() or not any(there.iterdir()):
        return
    try:
        is_same = media.Medium(there).version == version
    except (OSError, KeyError):
        is_same = False
    if not is_same:
        what = f"{path} belongs at {place}, where something else is"
        yield Problem(Group.ARCHIVES, where, what, f"Unmount that, or empty {place}.")
