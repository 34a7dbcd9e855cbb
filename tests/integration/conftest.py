"""The ISO that was built, mounted, and what stands for target machines.

The build tells where it is in ``METALK8S_BUILD_ROOT`` and ``METALK8S_ISO``. The ISO is mounted
with ``fuseiso``: the reference kernel has no iso9660. A missing tool skips with its name; in CI it
fails.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.integration.checkout import Checkout
from tests.testbed import machine
from tests.testbed.machine import Bootstrapped, Machine, Sniffer

ROOT = pathlib.Path(__file__).parents[2]
ENGINE_TESTS = "metalk8s-test"


# Modules that share what is dear or has but one name, and the fixture that it is. One process runs
# a group, in this order: the last one may take away what the others need.
CLUSTER = (
    *("test_bootstrap", "test_certificates", "test_cluster_guards", "test_cluster_power"),
    *("test_network_policy", "test_dns", "test_load_balancer", "test_ingress", "test_cluster"),
    # A cluster of its own; beside another, two processors would be too few.
    "test_fleet",
)
GROUPS = {
    "first": CLUSTER,
    "checkout": ("test_failures", "test_redhat_profile", "test_base_image"),
    "nginx_image": ("test_iso", "test_registry"),
}
# What takes longest begins first, beside the cluster.
LONGEST = ("test_reproducible", "test_failures", "test_documents")
GROUP_OF = {module: group for group, modules in GROUPS.items() for module in modules}


class OneProcessPerGroup(LoadScopeScheduling):
    """Gives a process whole modules, and whole groups of them.

    The marks of pytest-xdist are not seen by the pytest that we have: version 9.2 keeps the names
    of tests where pytest-xdist 3.8 does not look for them.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = pathlib.PurePath(nodeid.partition("::")[0]).stem
        return GROUP_OF.get(module, module)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneProcessPerGroup | None:
    """Let modules be run side by side."""
    return OneProcessPerGroup(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put modules into an order that ends soon; refuse one that shares, outside its group."""
    order = [*CLUSTER, *LONGEST, *GROUP_OF]
    for item in items:
        for fixture, modules in GROUPS.items():
            if fixture in getattr(item, "fixturenames", ()) and item.path.stem not in modules:
                raise pytest.UsageError(
                    f"{item.path} needs {fixture}: put it into that group of {__file__}"
                )
    last = len(order)
    rank = {module: number for number, module in reversed(list(enumerate(order)))}
    items.sort(key=lambda item: rank.get(item.path.stem, last))


def require(*tools: str) -> None:
    """Skip (in CI: fail) when a tool is missing, naming it."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing and os.environ.get("CI"):
        pytest.fail(f"missing: {', '.join(missing)}")
    if missing:
        pytest.skip(f"missing: {', '.join(missing)}")


def run(*argv: object, **options: object) -> str:
    """Run a program and return its output; what it said is part of a failure."""
    words = [str(word) for word in argv]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    output = f"{done.stdout}{done.stderr}"
    assert done.returncode == 0, f"{' '.join(words)}: exit {done.returncode}\n{output}"
    return str(done.stdout)


@pytest.fixture(scope="session")
def build_root() -> pathlib.Path:
    """Return where the build left everything."""
    return pathlib.Path(os.environ.get("METALK8S_BUILD_ROOT", ROOT / "_build"))


@pytest.fixture(scope="session")
def iso(build_root: pathlib.Path) -> pathlib.Path:
    """Return the ISO file."""
    path = pathlib.Path(os.environ.get("METALK8S_ISO", build_root / "metalk8s.iso"))
    if not path.is_file():
        pytest.fail(f"no ISO at {path}: run ./doit.sh iso")
    return path


@pytest.fixture(scope="session")
def iso_tree(iso: pathlib.Path) -> Iterator[pathlib.Path]:
    """Mount the ISO, read-only, for everybody."""
    require("fuseiso", "fusermount")
    # Not where pytest tidies up: it fails on what a run that was killed has left mounted.
    mount = pathlib.Path(tempfile.mkdtemp(prefix="metalk8s-iso-"))
    mount.chmod(0o755)
    # Containers run under other users, whom FUSE keeps out by default.
    run("fuseiso", iso, mount, "-o", "allow_other,ro")
    try:
        yield mount
    finally:
        run("fusermount", "-u", "-z", mount)
        mount.rmdir()


@pytest.fixture(scope="session")
def version(iso_tree: pathlib.Path) -> str:
    """Return the version that product.txt names."""
    lines = (iso_tree / "product.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)["VERSION"]


@pytest.fixture(scope="session")
def facts(build_root: pathlib.Path) -> dict[str, dict[str, object]]:
    """Return the facts of every receipt of the build, by step."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))["facts"]
        for path in (build_root / "receipts").glob("*.json")
    }


@pytest.fixture(scope="session")
def base_image(facts: dict[str, dict[str, object]]) -> str:
    """Return a clean minimal Debian 12 root in the engine: the base, with nothing of ours."""
    require("docker")
    reference = str(facts["base_image"]["reference"])
    run("docker", "image", "inspect", reference)
    return reference


@pytest.fixture(scope="session")
def debian_root_image(facts: dict[str, dict[str, object]]) -> str:
    """Return a Debian 12 machine with systemd and Python, and nothing of ours."""
    require("docker")
    reference = str(facts["testbed_image"]["reference"])
    run("docker", "image", "inspect", reference)
    return reference


@pytest.fixture(scope="session")
def node(
    debian_root_image: str, iso: pathlib.Path, build_root: pathlib.Path, version: str
) -> Callable[..., contextlib.AbstractContextManager[tuple[Machine, Sniffer]]]:
    """Return what starts a clean machine with the ISO, on a network without a way out.

    It takes ``keepalived``: whether the API server has a virtual address.
    """
    require("docker")
    key = build_root / "keys" / "metalk8s.gpg"
    return functools.partial(machine.started, debian_root_image, iso, key, version)


@pytest.fixture(scope="session")
def first(
    node: Callable[..., contextlib.AbstractContextManager[tuple[Machine, Sniffer]]],
) -> Iterator[Bootstrapped]:
    """Bootstrap a machine, with a virtual address, once for all tests of what comes of it."""
    with node(keepalived=True) as (found, sniffer):
        output = found.bootstrap()
        yield Bootstrapped(found, sniffer, output, found.files())


@pytest.fixture(scope="session")
def cluster(first: Bootstrapped) -> Machine:
    """Return that machine, for tests that only want the cluster."""
    return first.machine


@pytest.fixture(scope="session")
def salt_venv() -> pathlib.Path:
    """Return an environment of the system's Python that has Salt."""
    default = ROOT / "_build" / "salt-environment"
    path = pathlib.Path(os.environ.get("METALK8S_SALT_ENVIRONMENT", default))
    if not (path / "bin" / "salt-call").is_file():
        pytest.fail(f"no Salt in {path}: run ./doit.sh _salt_environment")
    return path


@pytest.fixture(scope="session")
def nginx_image(iso_tree: pathlib.Path) -> Iterator[str]:
    """Return the ISO's own nginx in the engine."""
    require("docker", "skopeo")
    image = f"{ENGINE_TESTS}/nginx:iso"
    [tree] = (iso_tree / "images" / "nginx").iterdir()
    run("skopeo", "--insecure-policy", "copy", "-q", f"dir:{tree}", f"docker-daemon:{image}")
    try:
        yield image
    finally:
        run("docker", "image", "rm", "--force", image)


@pytest.fixture(scope="session")
def registry(
    iso_tree: pathlib.Path,
    version: str,
    nginx_image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Registry]:
    """Serve the ISO's images with the ISO's own nginx, where there is no network at all."""
    prefix = f"metalk8s-{version}"
    scratch = tmp_path_factory.mktemp("registry")
    with serving(nginx_image, scratch, prefix, {"": iso_tree}) as served:
        served.wait("pause", "3.4")
        yield served


@contextlib.contextmanager
def serving(
    image: str, scratch: pathlib.Path, prefix: str, parts: Mapping[str, pathlib.Path]
) -> Iterator[Registry]:
    """Serve an archive that is put together from ``parts`` (place in it to path)."""
    require("docker", "skopeo", "nsenter")
    place = f"/srv/scality/{prefix}"
    configuration = scratch / "registry.conf"
    configuration.write_text(
        f"server {{ listen 127.0.0.1:8080; include {place}/registry-config.inc; }}\n",
        encoding="utf-8",
    )
    name = f"metalk8s-test-registry-{os.getpid()}-{prefix}"
    run(
        *("docker", "run", "--detach", "--rm", "--name", name, "--network", "none"),
        *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"),
        *("--volume", f"{configuration}:/etc/nginx/conf.d/registry.conf:ro"),
        *(f"--volume={path}:{f'{place}/{part}'.rstrip('/')}:ro" for part, path in parts.items()),
        image,
    )
    try:
        pid = run("docker", "inspect", "--format", "{{.State.Pid}}", name).strip()
        yield Registry(pid, name, prefix)
    finally:
        run("docker", "rm", "--force", name)


@pytest.fixture
def checkout(tmp_path: pathlib.Path, cache: pathlib.Path) -> Checkout:
    """Copy what git knows of the project; the Python environment is shared."""
    folder = tmp_path / "checkout"
    listed = run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard")
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    # What is downloaded and compiled is shared, what is built is what a test breaks.
    shutil.rmtree(cache / "made", ignore_errors=True)
    return Checkout(folder, cache)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return an empty cache for this session, so that things are really fetched."""
    return tmp_path_factory.mktemp("cache")


class Registry:
    """A registry that only its own network namespace can reach."""

    address = "127.0.0.1:8080"

    def __init__(self, pid: str, container: str, prefix: str) -> None:
        self.pid = pid
        self.container = container
        self.prefix = prefix

    def inside(self, *argv: object) -> str:
        """Run a program of this machine in the registry's network, which has loopback only."""
        return run("nsenter", f"--net=/proc/{self.pid}/ns/net", *argv)

    def wait(self, image: str, tag: str) -> None:
        """Wait until it knows an image."""
        for _ in range(100):
            probe = ["nsenter", f"--net=/proc/{self.pid}/ns/net", "skopeo", "inspect",
                     "--tls-verify=false", "--raw", self.reference(image, tag)]  # fmt: skip
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.1)
        logs = subprocess.run(["docker", "logs", self.container], capture_output=True, check=False)
        pytest.fail(f"the registry does not answer: {logs.stdout!r} {logs.stderr!r}")

    def reference(self, name: str, tag: str) -> str:
        """Return where skopeo finds an image by tag or digest."""
        separator = "@" if tag.startswith("sha256:") else ":"
        return f"docker://{self.address}/{self.prefix}/{name}{separator}{tag}"
