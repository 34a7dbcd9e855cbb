"""A cluster on this machine: made, snapshot and restored with Vagrant.

Programs: ``vagrant``, ``ssh-keygen``; the Docker engine where the machines are containers. On disk,
below ``.vagrant`` beside what Vagrant keeps there itself: the pre-shared SSH key and
``metalk8s.json``, which tells the ``Vagrantfile`` what to start, so that plain ``vagrant``
commands work as well. In the engine: ``metalk8s-node:<12 digits>``, and one image a snapshot, since
Vagrant's Docker provider has none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildchain.core import events, process, receipt
from buildchain.core.errors import BuildError, ConfigError, ToolError
from buildchain.core.layout import Layout
from buildchain.core.receipt import write_whole
from buildchain.debian import base
from buildchain.machine import engine, engine_service
from buildchain.project import config
from buildchain.project.config import Config
from buildchain.testbed import vagrant_cli

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

MACHINE = "bootstrap"
CLOSURE = "testbed"
KEY = "preshared_key_for_k8s_nodes"
LIBVIRT_PLUGIN = "vagrant-libvirt"
# Names the image that `bootstrap` starts from in place of the node image.
IMAGE_VARIABLE = "METALK8S_BOOTSTRAP_IMAGE"


class MachineError(BuildError):
    """A machine or a snapshot of it is not as it has to be."""


@dataclass(frozen=True)
class Bed:
    """Where the machines of a checkout are described, and what they are called in the engine."""

    layout: Layout

    @property
    def folder(self) -> Path:
        return self.layout.root / ".vagrant"

    @property
    def key(self) -> Path:
        return self.folder / KEY

    @property
    def settings(self) -> Path:
        return self.folder / "metalk8s.json"

    @property
    def node(self) -> Path:
        """The folder of the node image."""
        return self.layout.root / "tests" / "testbed" / "node"

    @property
    def name(self) -> str:
        """Network in the engine; two checkouts do not share one."""
        where = hashlib.sha256(str(self.layout.root).encode()).hexdigest()
        return f"metalk8s-{where[:8]}"

    def machine(self, provider: str, file: str) -> Path:
        """Return a file that Vagrant keeps about the machine."""
        return self.folder / "machines" / MACHINE / provider / file

    def snapshot(self, name: str) -> str:
        """Return the reference of the image that is a snapshot."""
        return f"{self.name}-{MACHINE}:{name}"


@dataclass(frozen=True)
class Machines:
    """What it takes to start machines.

    :param version: of the product, part of the place where the ISO's tree is mounted.
    :param node_image: makes sure of the node image and returns its reference (for Docker).
    """

    layout: Layout
    config: Config
    version: str
    node_image: Callable[[], str]

    @property
    def bed(self) -> Bed:
        return Bed(self.layout)

    @property
    def binary(self) -> str:
        return self.config.binary("vagrant")

    def run(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        """Run Vagrant in the checkout, against the engine of the build."""
        address = engine.endpoint(self.config.binary("docker")) if _has_docker(self.config) else ""
        extra = {"DOCKER_HOST": address} if address else {}
        env = {**vagrant_cli.ENVIRONMENT, **extra, **(env or {})}
        return process.run(argv, cwd=self.layout.root, env=env, on_line=_tell)


def _has_docker(settings: Config) -> bool:
    return shutil.which(settings.binary("docker")) is not None


def _tell(line: str) -> None:
    """Show the headlines of Vagrant's output."""
    if line.startswith("==> ") and "trigger" not in line:
        events.note(line.removeprefix("==> "))


# -- the provider ---------------------------------------------------------------------------------
def asked_provider(settings: Config) -> str:
    """Return the provider the options name, empty when Vagrant's machines may be of any kind.

    :raises ConfigError: they name two, or one that we have no machines for.
    """
    in_arguments = vagrant_cli.provider_in(settings.vagrant_up_args)
    named = settings.vagrant_provider
    if in_arguments and in_arguments not in config.PROVIDERS:
        raise ConfigError(
            f"VAGRANT_UP_ARGS: --provider {in_arguments}: "
            f"expected one of {', '.join(config.PROVIDERS)}"
        )
    if named and in_arguments and named != in_arguments:
        raise ConfigError(
            f"VAGRANT_PROVIDER={named}, but VAGRANT_UP_ARGS says --provider {in_arguments}"
        )
    return in_arguments or named


def may_be_docker(settings: Config) -> bool:
    """Tell without asking any program whether the machines could be containers."""
    asked = vagrant_cli.provider_in(settings.vagrant_up_args) or settings.vagrant_provider
    return asked == "docker" if asked else shutil.which("VBoxManage") is None


def provider(settings: Config) -> str:
    """Return the provider: the one asked for, or the first that this machine has.

    :raises ToolError: it is not there, or none is: what is missing of each.
    """
    probes = {"virtualbox": _no_virtualbox, "libvirt": _no_libvirt, "docker": _no_docker}
    asked = asked_provider(settings)
    missing = {}
    for name in [asked] if asked else probes:
        missing[name] = probes[name](settings)
        if not missing[name]:
            return name
    problems = "; ".join(f"{name}: {problem}" for name, problem in missing.items())
    raise ToolError(
        f"no machine can be started here ({problems})",
        solution="Name another VAGRANT_PROVIDER or install this one."
        if asked
        else "Run ./doit.sh setup, which starts the Docker engine, or install one of the others.",
    )


def _no_virtualbox(_settings: Config) -> str:
    return "" if shutil.which("VBoxManage") else "VBoxManage is missing"


def _no_libvirt(settings: Config) -> str:
    if not shutil.which("virsh"):
        return "virsh is missing"
    argv = vagrant_cli.argv_for_plugins(settings.binary("vagrant"))
    # Not from the checkout: there Vagrant would read the Vagrantfile first.
    plugins = process.run(argv, cwd=Path("/"), env=vagrant_cli.ENVIRONMENT)
    return "" if vagrant_cli.has_plugin(plugins, LIBVIRT_PLUGIN) else f"no plugin {LIBVIRT_PLUGIN}"


def _no_docker(settings: Config) -> str:
    if not shutil.which(settings.binary("docker")):
        return f"{settings.binary('docker')} is missing"
    return "" if engine_service.answers(settings.binary("docker")) else "the engine does not answer"


# -- what machines are made of --------------------------------------------------------------------
def has_key(layout: Layout) -> bool:
    """Tell whether both halves of the pre-shared key are there."""
    key = Bed(layout).key
    return key.is_file() and key.with_suffix(".pub").is_file()


def make_key(layout: Layout) -> None:
    """Make the key with which ``bootstrap`` enters the nodes, and Vagrant enters containers."""
    key = Bed(layout).key
    key.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="key-", dir=key.parent) as scratch:
        fresh = Path(scratch) / KEY
        process.run(vagrant_cli.argv_for_key(fresh, "metalk8s nodes"))
        # The public half first, so a private key implies that both exist.
        fresh.with_suffix(".pub").replace(key.with_suffix(".pub"))
        fresh.replace(key)


def node_files(layout: Layout) -> dict[str, Path]:
    """Return the files of the node image by their name in the build context."""
    folder = Bed(layout).node
    return {file.name: file for file in receipt.sources([folder]) if file.suffix != ".args"}


def ensure_node_image(layout: Layout, client: docker.DockerClient, below: str) -> str:
    """Return the node image's reference, built (again) when the engine does not have it."""
    files = node_files(layout)
    parts = [below.encode(), layout.closure(CLOSURE).read_bytes()]
    for name, file in sorted(files.items()):
        parts += [name.encode(), file.read_bytes(), str(os.access(file, os.X_OK)).encode()]
    reference = base.content_name("metalk8s-node", parts)
    return base.ensure_image(layout, client, reference, CLOSURE, files, below)


def _tree_identity(tree: Path) -> list[int]:
    # A populated tree replaces the folder; a machine that runs keeps looking at the old one.
    status = tree.stat()
    return [status.st_ino, status.st_ctime_ns]


def _read_settings(bed: Bed) -> Mapping[str, object]:
    try:
        document = json.loads(bed.settings.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _write_settings(machines: Machines, kind: str) -> None:
    layout, bed = machines.layout, machines.bed
    document = {
        "version": machines.version,
        "key": str(layout.keys / "metalk8s.gpg"),
        "tree": str(layout.iso_root),
        "tree_identity": _tree_identity(layout.iso_root),
        "network": bed.name,
        "provider": kind,
        **({"image": machines.node_image()} if kind == "docker" else {}),
    }
    write_whole(bed.settings, json.dumps(document, indent=1, sort_keys=True) + "\n")


# -- up -------------------------------------------------------------------------------------------
def up(machines: Machines) -> None:
    """Start ``bootstrap``: bare first and a snapshot of that, then provisioned.

    :raises ToolError: this machine has no provider.
    :raises MachineError: the ISO's tree is not there.
    """
    kind = provider(machines.config)
    _require_tree(machines.layout)
    before = _read_settings(machines.bed)
    _write_settings(machines, kind)
    state = _state(machines)
    current = _read_settings(machines.bed)["tree_identity"]
    if state == "running" and before.get("tree_identity") != current:
        events.note("the ISO's tree was made again; restarting the machine with it")
        machines.run(vagrant_cli.argv_for_halt(machines.binary, MACHINE))
    if _wants_snapshot(machines, kind, state):
        machines.run(vagrant_cli.argv_for_bare_up(machines.binary, MACHINE, kind))
        save(machines, kind)
    settings = machines.config
    default = config.VAGRANT_UP_ARGS.split()
    arguments = vagrant_cli.up_arguments(settings.vagrant_up_args, default, kind)
    machines.run(vagrant_cli.argv_for_up(machines.binary, MACHINE, arguments))


def _require_tree(layout: Layout) -> None:
    if not layout.iso_root.is_dir():
        raise MachineError(
            f"{layout.iso_root} is not there", solution="Make it with ./doit.sh populate_iso."
        )


def _state(machines: Machines) -> str:
    argv = vagrant_cli.argv_for_status(machines.binary, MACHINE)
    return vagrant_cli.parse_state(machines.run(argv), MACHINE)


def _wants_snapshot(machines: Machines, kind: str, state: str) -> bool:
    """Only a machine that nothing was installed on is worth going back to."""
    if state == vagrant_cli.NOT_CREATED:
        return True
    if _is_provisioned(machines.bed, kind):
        return False
    return not _has_snapshot(machines, kind)


def _is_provisioned(bed: Bed, kind: str) -> bool:
    # Vagrant's own mark, "1.5:<id of the machine>", written as provisioning begins.
    try:
        mark = bed.machine(kind, "action_provision").read_text(encoding="utf-8")
        return mark.strip() == f"1.5:{_machine_id(bed, kind)}"
    except OSError:
        return False


def _machine_id(bed: Bed, kind: str) -> str:
    return bed.machine(kind, "id").read_text(encoding="utf-8").strip()


# -- snapshots ------------------------------------------------------------------------------------
def _has_snapshot(machines: Machines, kind: str) -> bool:
    name = machines.config.vagrant_snapshot_name
    if kind == "docker":
        with engine.connect(machines.config.binary("docker")) as client:
            return engine.has_image(client, machines.bed.snapshot(name))
    printed = machines.run(vagrant_cli.argv_for_snapshots(machines.binary, MACHINE))
    return name in [line.strip() for line in printed.splitlines()]


def save(machines: Machines, kind: str) -> None:
    """Take the snapshot ``VAGRANT_SNAPSHOT_NAME``."""
    name = machines.config.vagrant_snapshot_name
    events.note(f"taking snapshot {name}")
    if kind == "docker":
        with engine.connect(machines.config.binary("docker")) as client:
            container = client.containers.get(_machine_id(machines.bed, kind))
            _commit(client, container, machines.bed.snapshot(name))
    else:
        machines.run(vagrant_cli.argv_for_save(machines.binary, MACHINE, name))


def _commit(client: docker.DockerClient, container: Container, reference: str) -> None:
    """Keep a container's file system as an image.

    What it wrote to volumes stays out. They are for a cluster's data, and nothing was installed.
    """
    import docker

    previous = ""
    with contextlib.suppress(docker.errors.ImageNotFound):
        previous = str(client.images.get(reference).id)
    repository, _, tag = reference.rpartition(":")
    container.commit(repository=repository, tag=tag, pause=True)
    if previous:
        # Still in use when a machine was restored from it; then it goes with a later one.
        with contextlib.suppress(docker.errors.APIError):
            client.images.remove(previous)


def restore(machines: Machines) -> None:
    """Bring ``bootstrap`` back to the snapshot ``VAGRANT_SNAPSHOT_NAME``, not provisioned.

    :raises MachineError: there is no such snapshot.
    """
    kind = provider(machines.config)
    name = machines.config.vagrant_snapshot_name
    _require_tree(machines.layout)
    if not machines.bed.settings.is_file() or not _has_snapshot(machines, kind):
        raise MachineError(
            f"{MACHINE} has no snapshot {name}",
            solution="./doit.sh vagrant_up takes one of a fresh machine; "
            "VAGRANT_SNAPSHOT_NAME names it.",
        )
    if kind == "docker":
        machines.run(vagrant_cli.argv_for_destroy(machines.binary, MACHINE))
        argv = vagrant_cli.argv_for_bare_up(machines.binary, MACHINE, kind)
        machines.run(argv, {IMAGE_VARIABLE: machines.bed.snapshot(name)})
    else:
        machines.run(vagrant_cli.argv_for_restore(machines.binary, MACHINE, name))
