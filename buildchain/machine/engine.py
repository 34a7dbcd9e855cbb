"""The Docker engine, through its API: builders run here, images are made here.

The engine is the one that the configured Docker command talks to (``DOCKER_HOST``, else its
current context). Containers of a build have no network and carry a label, so that what a killed
build left behind is found and removed.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from buildchain.core import events, process
from buildchain.core.errors import (
    BuildError,
    CommandError,
    EngineAccessError,
    EngineError,
    SpaceError,
)

if TYPE_CHECKING:
    import docker

LABEL = "metalk8s.build"
API_TIMEOUT = 3600  # seconds; a compilation may be silent for long
# Builder scripts begin the lines that tell how far they are with their own name.
STEP = re.compile(r"^[\w-]+\.sh: (?P<text>.+)")


@dataclass(frozen=True)
class Run:
    """One container: image, command, folders.

    :param mounts: host path to container path; read-only unless listed in ``writable``.
    """

    name: str
    image: str
    argv: Sequence[str]
    mounts: Mapping[Path, str]
    writable: frozenset[Path] = frozenset()
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"


@contextlib.contextmanager
def connect(docker_binary: str, timeout: int = API_TIMEOUT) -> Iterator[docker.DockerClient]:
    """Open the engine.

    :param timeout: seconds that each of its answers may take.
    :raises EngineError: nothing answers there.
    """
    import docker

    host = endpoint(docker_binary)
    try:
        client = docker.DockerClient(base_url=host or None, timeout=timeout, version="auto")
    except docker.errors.DockerException as error:
        where = host or "its default socket"
        raise unreachable(where, str(error)) from error
    try:
        with _translated():
            yield client
    finally:
        client.close()


def unreachable(where: str, details: str) -> EngineError:
    """Return the error for an engine that cannot be reached, from what the socket said."""
    if "Permission denied" in details:
        return EngineAccessError(
            f"you may not use the Docker engine at {where}",
            details=details,
            solution='Join the group "docker" and log in again, or run this as root.',
        )
    return EngineError(f"no Docker engine answers at {where}", details=details)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    import docker
    import requests

    try:
        yield
    except (docker.errors.DockerException, requests.RequestException) as error:
        text = str(error)
        if process.FULL_DISK.search(text):
            raise SpaceError("the Docker engine ran out of disk space", details=text) from error
        raise EngineError("the Docker engine refused or went away", details=text) from error


def endpoint(docker_binary: str) -> str:
    """Return the engine's address: ``DOCKER_HOST``, else the Docker command's current context.

    :raises EngineError: ``DOCKER_CONTEXT`` names a context that there is not.
    """
    host = os.environ.get("DOCKER_HOST", "")
    if host:
        return host
    argv = [docker_binary, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    try:
        return process.run(argv).strip().splitlines()[-1]
    except (CommandError, IndexError) as error:
        context = os.environ.get("DOCKER_CONTEXT", "")
        if context:
            raise EngineError(
                f"DOCKER_CONTEXT={context} is no context of {docker_binary}",
                details=error.details if isinstance(error, CommandError) else "",
                solution="Name one that docker context ls shows, or unset DOCKER_CONTEXT.",
            ) from error
        return ""


# Containers that run now and how to reach them: an interrupted build takes them along.
_RUNNING: dict[str, docker.DockerClient] = {}


@atexit.register
def _stop_running() -> None:
    """Remove what still runs when the process ends (Ctrl-C ends worker threads unheard)."""
    if not _RUNNING:
        return
    import docker

    for name, client in list(_RUNNING.items()):
        with contextlib.suppress(docker.errors.DockerException):
            remove_container(client, name)


def run(client: docker.DockerClient, job: Run) -> str:
    """Run a container to its end, without a network, and return what it printed.

    :raises CommandError: its command failed.
    """
    remove_container(client, job.name)
    events.transcript(f"$ (in {job.image}) {process.printable(job.argv)}")
    container = client.containers.create(
        job.image,
        list(job.argv),
        name=job.name,
        labels={LABEL: job.name},
        network_mode="none",
        user=f"{os.getuid()}:{os.getgid()}",
        working_dir=job.workdir,
        environment={"LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": "/tmp", **job.environment},  # noqa: S108
        volumes={
            str(host): {"bind": inside, "mode": "rw" if host in job.writable else "ro"}
            for host, inside in job.mounts.items()
        },
        detach=True,
    )
    _RUNNING[job.name] = client
    try:
        container.start()
        output = _drain(container.logs(stream=True, follow=True))
        status = int(container.wait()["StatusCode"])
    finally:
        container.remove(force=True, v=True)
        _RUNNING.pop(job.name, None)
    if status:
        raise process.failure([job.name, *job.argv], status, output)
    return output


def _drain(stream: Iterable[bytes]) -> str:
    """Log the lines of a byte stream; those a script marked reach the terminal."""
    parts: list[str] = []
    pending = ""
    for chunk in stream:
        text = chunk.decode("utf-8", "replace")
        parts.append(text)
        *lines, pending = (pending + text).split("\n")
        for line in lines:
            step = STEP.match(line)
            if step:
                events.note(step["text"])
            else:
                events.transcript(line)
    return "".join(parts)


def own_name(build_root: Path, purpose: str) -> str:
    """Return a name that is the same in the next build here, and another in other build roots."""
    place = hashlib.sha256(str(build_root).encode()).hexdigest()[:8]
    return f"metalk8s-{place}-{purpose}"


def remove_container(client: docker.DockerClient, name: str) -> None:
    """Remove what a killed build left under this name."""
    import docker

    with contextlib.suppress(docker.errors.NotFound):
        client.containers.get(name).remove(force=True, v=True)


def has_image(client: docker.DockerClient, reference: str) -> bool:
    """Tell whether the engine has an image."""
    import docker

    try:
        client.images.get(reference)
    except docker.errors.ImageNotFound:
        return False
    return True


def import_root(client: docker.DockerClient, tar: Path, reference: str) -> None:
    """Make an image of one layer from the tar of a root file system."""
    repository, _, tag = reference.partition(":")
    with tar.open("rb") as stream:
        client.api.import_image_from_data(stream, repository=repository, tag=tag)


def build(
    client: docker.DockerClient,
    reference: str,
    context: Mapping[str, Path],
    arguments: Mapping[str, str],
) -> None:
    """Build an image from an explicit context, without a network.

    :param context: name in the context to file; ``Dockerfile`` is one of them.
    :raises BuildError: an instruction failed, with the end of its output.
    """
    lines: list[str] = []
    with _context_archive(context) as archive:
        steps = client.api.build(
            fileobj=archive,
            custom_context=True,
            tag=reference,
            network_mode="none",
            buildargs=dict(arguments),
            # The receipts know what is up to date. The engine's cache would only hide from a second
            # build what an instruction does differently each time.
            nocache=True,
            rm=True,
            forcerm=True,
            decode=True,
        )
        for step in steps:
            text = str(step.get("stream") or step.get("error") or "").rstrip()
            if text:
                events.transcript(text)
                lines += text.splitlines()
            if "error" in step:
                raise _build_failure(reference, lines)


def _build_failure(reference: str, lines: Sequence[str]) -> BuildError:
    tail = "\n".join(lines[-process.TAIL_LINES :])
    if process.FULL_DISK.search(tail):
        return SpaceError("the Docker engine ran out of disk space", details=tail)
    return CommandError(f"building image {reference} failed", details=tail)


@contextlib.contextmanager
def _context_archive(context: Mapping[str, Path]) -> Iterator[IO[bytes]]:
    """Pack the context: same files, same bytes."""
    with tempfile.TemporaryFile() as stream:
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, file in sorted(context.items()):
                entry = tarfile.TarInfo(name)
                entry.size = file.stat().st_size
                entry.mode = 0o755 if os.access(file, os.X_OK) else 0o644
                with file.open("rb") as content:
                    archive.addfile(entry, content)
        stream.seek(0)
        yield stream


def layers(client: docker.DockerClient, reference: str) -> tuple[str, ...]:
    """Return the diff ids of an image's layers (``sha256:…``, lowest first)."""
    details: dict[str, Any] = client.images.get(reference).attrs
    return tuple(details["RootFS"]["Layers"])
