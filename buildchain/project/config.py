"""Every option of a build: the environment is read once, here, into one frozen record.

``doit.sh`` exports what ``.env`` assigns; ``.env.example`` documents the same table (a test
compares the two). Spec: chapter 9.3.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import roots
from buildchain.core.errors import ConfigError
from buildchain.project import env_file

STRICT = "strict"

# `-` may not lead: the value becomes a file name and a volume id.
PROJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,15}")
MIRROR = re.compile(r"[^\s=]+=https?://[^\s/@=]+(/[^\s=]*)?")
HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?|\[[0-9a-fA-F:]+\](:[0-9]+)?")
DIGEST_REFERENCE = re.compile(r"[a-z0-9./:_-]+@sha256:[0-9a-f]{64}")
FINGERPRINT = re.compile(r"[0-9A-Fa-f]{40}")
LOCK_POLICIES = ("roll", "strict")
# A colon would end the path where Docker mounts it.
UNUSABLE_IN_PATHS = re.compile(r"[:\x00-\x1f\x7f]")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# From the first date that archives (ZIP) know to the last that OpenPGP and gpg do.
EPOCHS = range(315532800, 2**32)  # 1980-01-01 to 2106-02-07, seconds since 1970
# It becomes an argument of vagrant, and with Docker an image's tag.
SNAPSHOT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
PROVIDERS = ("docker", "libvirt", "virtualbox")
# What VAGRANT_UP_ARGS says when unset; the provider is appended.
VAGRANT_UP_ARGS = "--provision --no-destroy-on-error --parallel"


@dataclass(frozen=True)
class Option:
    """One line of ``.env``.

    :param default: value when unset, as it would be written.
    :param check: raises ``ValueError`` with what is expected.
    """

    name: str
    default: str
    help: str
    check: Callable[[str], object] = str


@dataclass(frozen=True)
class Config:
    """The settings of one build.

    :param root: the checkout.
    :param build_root: where everything is built, absolute.
    :param cache_root: downloads, compiled packages and the development key; outlives ``clean``.
    :param source_date_epoch: seconds since 1970, or ``None`` for the last commit's time.
    :param base_image: an image by digest in place of the one we make, or empty.
    :param signing_key: fingerprints in the user's GnuPG home, or empty for a development key.
    :param signing_public_key: public halves of these keys, whose secret halves are on another
        machine, or ``None``.
    :param key_introduction: detached signature of the first one's public half, or ``None``.
    :param registry_mirrors: ``registry=http[s]://host[:port][/prefix]`` each.
    :param plain_http_registries: ``host[:port]`` each.
    :param registry_auth_file: in place of the standard ones, or ``None``.
    :param signature_policy: ``containers-policy.json(5)``, or ``None`` to check no signatures.
    """

    root: Path
    project_name: str
    build_root: Path
    cache_root: Path
    profile: str
    base_image: str
    lock_policy: str
    signing_key: str
    signing_public_key: Path | None
    key_introduction: Path | None
    source_date_epoch: int | None
    registry_mirrors: tuple[str, ...]
    plain_http_registries: tuple[str, ...]
    registry_auth_file: Path | None
    signature_policy: Path | None
    vagrant_provider: str
    vagrant_up_args: tuple[str, ...]
    vagrant_snapshot_name: str
    binaries: Mapping[str, str]

    def binary(self, name: str) -> str:
        """Return the program configured for ``<name>_BIN``."""
        return self.binaries[name]


def _one_of(*values: str) -> Callable[[str], object]:
    def check(value: str) -> object:
        if value not in values:
            raise ValueError(f"one of {', '.join(v or '(empty)' for v in values)}")
        return value

    return check


def _matching(pattern: re.Pattern[str], expected: str) -> Callable[[str], object]:
    def check(value: str) -> object:
        if value and not pattern.fullmatch(value):
            raise ValueError(expected)
        return value

    return check


def _words(pattern: re.Pattern[str], expected: str) -> Callable[[str], object]:
    def check(value: str) -> object:
        if not all(pattern.fullmatch(word) for word in value.split()):
            raise ValueError(expected)
        return value

    return check


def _file(value: str) -> object:
    if value and not Path(value).expanduser().is_file():
        raise ValueError("a file that exists")
    return value


def _not_empty(value: str) -> object:
    if not value.strip():
        raise ValueError("a value")
    return value


def _path(value: str) -> object:
    _not_empty(value)
    if UNUSABLE_IN_PATHS.search(value):
        raise ValueError("a path without colons and control characters")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError("a path whose user exists") from error


def _epoch(value: str) -> object:
    if value and not (value.isascii() and value.isdigit() and int(value) in EPOCHS):
        raise ValueError(f"seconds since 1970, from {EPOCHS[0]} (1980) to {EPOCHS[-1]} (2106)")
    return value


def _shell_words(value: str) -> object:
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"shell words ({error})") from error


OPTIONS = (
    Option(
        "PROJECT_NAME",
        "MetalK8s",
        "name of the product: ISO file name, volume id, product.txt",
        _matching(PROJECT_NAME, "at most 16 letters, digits, - and _"),
    ),
    Option("BUILD_ROOT", "_build", "where to build, absolute or relative to here", _path),
    Option(
        "CACHE_ROOT",
        "~/.cache/metalk8s",
        "downloads, built packages and images, and the development key, kept between builds",
        _path,
    ),
    Option("PROFILE", "default", "what to build: a folder of buildchain/pins", _not_empty),
    Option(
        "BASE_IMAGE",
        "",
        "base of all images by digest (registry/name@sha256:…) in place of our own",
        _matching(DIGEST_REFERENCE, "an image by digest, registry/name@sha256:<64 hex digits>"),
    ),
    Option(
        "LOCK_POLICY",
        "roll",
        "when the archive dropped a locked package: roll to the current one, or strict: stop",
        _one_of(*LOCK_POLICIES),
    ),
    Option(
        "SIGNING_KEY",
        "",
        "fingerprints of release keys in your GnuPG home, the first for packages, all for the ISO; "
        "empty: a development key",
        _words(FINGERPRINT, "fingerprints of 40 hexadecimal digits, separated by spaces"),
    ),
    Option(
        "SIGNING_PUBLIC_KEY",
        "",
        "file: public halves of SIGNING_KEY, which signs on another machine; empty: it is in your "
        "GnuPG home",
        _file,
    ),
    Option(
        "KEY_INTRODUCTION",
        "",
        "file: the old release key's signature of the new one; empty: none",
        _file,
    ),
    Option(
        "SOURCE_DATE_EPOCH",
        "",
        "date of everything on the ISO, seconds since 1970; empty: the last commit's",
        _epoch,
    ),
    Option(
        "REGISTRY_MIRRORS",
        "",
        "where to look for images first: registry=http[s]://host[:port][/prefix] …",
        _words(MIRROR, "registry=http[s]://host[:port][/prefix], separated by spaces"),
    ),
    Option(
        "PLAIN_HTTP_REGISTRIES",
        "",
        "registries to talk to without TLS: host[:port] …",
        _words(HOST, "host[:port], separated by spaces"),
    ),
    Option(
        "REGISTRY_AUTH_FILE",
        "",
        "logins for registries; empty: those of podman, skopeo and docker",
        _file,
    ),
    Option(
        "SIGNATURE_POLICY",
        "",
        "containers-policy.json that pulled images must satisfy; empty: their digest is enough",
        _file,
    ),
    Option(
        "VAGRANT_PROVIDER",
        "",
        "kind of machine; empty: the first of virtualbox, libvirt and docker that is there",
        _one_of("", *PROVIDERS),
    ),
    Option(
        "VAGRANT_UP_ARGS",
        "",
        f"arguments of vagrant up; empty: {VAGRANT_UP_ARGS} --provider $VAGRANT_PROVIDER",
        _shell_words,
    ),
    Option(
        "VAGRANT_SNAPSHOT_NAME",
        "bootstrap.autosnapshot",
        "snapshot made before the machine is provisioned",
        _matching(SNAPSHOT_NAME, "at most 128 letters, digits, dots, dashes and underscores"),
    ),
    Option("DOCKER_BIN", "docker", "Docker command; its current context names the engine"),
    Option("GIT_BIN", "git", "Git command"),
    Option("GOFMT_BIN", "gofmt", "gofmt command"),
    Option("HARDLINK_BIN", "hardlink", "hardlink command"),
    Option("MKISOFS_BIN", "xorrisofs", "mkisofs command; xorrisofs gives the same bytes each time"),
    Option("OPERATOR_SDK_BIN", "operator-sdk", "Operator SDK command"),
    Option("SKOPEO_BIN", "skopeo", "skopeo command"),
    Option("VAGRANT_BIN", "vagrant", "Vagrant command"),
)


def load(root: Path, environ: Mapping[str, str]) -> Config:
    """Return the settings of a build in checkout ``root``.

    :raises ConfigError: naming every unknown option in ``.env`` and every bad value.
    """
    problems = list(env_file.problems(root / ".env", [option.name for option in OPTIONS]))
    values: dict[str, str] = {}
    bad: list[str] = []
    for option in OPTIONS:
        value = environ.get(option.name) or option.default
        try:
            option.check(value)
        except ValueError as error:
            bad.append(option.name)
            problems.append(f"{option.name}={_visible(value)}: expected {error}")
        values[option.name] = value
    problems += _profile_problems(root, values["PROFILE"])
    if values["SIGNING_PUBLIC_KEY"] and not values["SIGNING_KEY"]:
        problems.append("SIGNING_PUBLIC_KEY is set: expected SIGNING_KEY too, to say who signs")
    if not {"BUILD_ROOT", "CACHE_ROOT"} & set(bad):
        folders = (_folder(root, values[name]) for name in ("BUILD_ROOT", "CACHE_ROOT"))
        problems += roots.problems(root, *folders)
    if problems:
        raise ConfigError("; ".join(problems))
    return _config(root, values)


def _visible(value: str) -> str:
    return CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", value)


def _folder(root: Path, value: str) -> Path:
    return (root / Path(value).expanduser()).absolute()


def _config(root: Path, values: Mapping[str, str]) -> Config:
    def file(name: str) -> Path | None:
        return _folder(root, values[name]) if values[name] else None

    epoch = values["SOURCE_DATE_EPOCH"]
    return Config(
        root=root,
        project_name=values["PROJECT_NAME"],
        build_root=_folder(root, values["BUILD_ROOT"]),
        cache_root=_folder(root, values["CACHE_ROOT"]),
        profile=values["PROFILE"],
        base_image=values["BASE_IMAGE"],
        lock_policy=values["LOCK_POLICY"],
        signing_key=" ".join(values["SIGNING_KEY"].upper().split()),
        signing_public_key=file("SIGNING_PUBLIC_KEY"),
        key_introduction=file("KEY_INTRODUCTION"),
        source_date_epoch=int(epoch) if epoch else None,
        registry_mirrors=tuple(values["REGISTRY_MIRRORS"].split()),
        plain_http_registries=tuple(values["PLAIN_HTTP_REGISTRIES"].split()),
        registry_auth_file=file("REGISTRY_AUTH_FILE"),
        signature_policy=file("SIGNATURE_POLICY"),
        vagrant_provider=values["VAGRANT_PROVIDER"],
        vagrant_up_args=tuple(shlex.split(values["VAGRANT_UP_ARGS"])),
        vagrant_snapshot_name=values["VAGRANT_SNAPSHOT_NAME"],
        binaries={
            name.removesuffix("_BIN").lower().replace("_", "-"): value
            for name, value in values.items()
            if name.endswith("_BIN")
        },
    )


def _profile_problems(root: Path, profile: str) -> list[str]:
    pins = root / "buildchain" / "pins"
    if "/" not in profile and (pins / profile / "profile.toml").is_file():
        return []
    known = sorted(path.parent.name for path in pins.glob("*/profile.toml"))
    return [f"PROFILE={profile}: expected one of {', '.join(known)}"]
