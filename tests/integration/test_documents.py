"""Every shell block of README and docs, typed as it is written (docs/adr/0018).

Runs ``docker``, and ``unshare`` for a copy of the checkout with its build. How each block is run is
in ``tests/documents/blocks.toml``.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

import pytest

from buildchain.project import catalog, context
from buildchain.proof import document_check
from tests.documents import blocks, declared, places, session
from tests.integration.conftest import ROOT, require, run
from tests.testbed.machine import Machine

pytestmark = pytest.mark.integration

BLOCKS = blocks.read(ROOT)
DECLARED = declared.load()


def pages(place: str) -> list[str]:
    """Name the pages that have something to run at a place, in their order."""
    return [page for page, entries in DECLARED.items() if any(e.run == place for e in entries)]


def typed(page: str, place: str) -> str:
    """Return what a reader of a page types at a place."""
    return session.script(declared.to_run(DECLARED, page, place, BLOCKS))


@pytest.fixture(scope="module")
def bare(debian_root_image: str, iso: pathlib.Path, build_root: pathlib.Path) -> Iterator[Machine]:
    """Return a machine with the medium and the key in root's folder, and nothing done."""
    require("docker")
    key = build_root / "keys" / "metalk8s.gpg"
    version = catalog.load(ROOT, "default").version
    with places.bare_machine(debian_root_image, iso, key, version.full) as machine:
        yield machine


@pytest.fixture(scope="module")
def strange() -> dict[str, str]:
    """Return what a stranger would bring in place of the three files, each fitting the others."""
    content = "stranger"
    sums = f"{hashlib.sha256(content.encode()).hexdigest()}  metalk8s.iso\n"
    # The agent's socket does not fit into pytest's own folder.
    with tempfile.TemporaryDirectory(prefix="stranger") as home:
        gpg = ("gpg", "--batch", "--quiet", "--homedir", home, "--passphrase", "")
        run(*gpg, "--quick-generate-key", "stranger", "rsa2048", "sign", "never")
        signature = run(*gpg, "--armor", "--detach-sign", input=sums)
        run("gpgconf", "--homedir", home, "--kill", "all")
    return {"metalk8s.iso": content, "SHA256SUM": sums, "SHA256SUM.sig": signature}


@pytest.mark.parametrize("page", [p for p in pages("node") if "mount -o loop" in typed(p, "node")])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_nothing_of_a_strangers_medium_is_run(
    bare: Machine, strange: dict[str, str], page: str, number: int
) -> None:
    """The ISO is another; its checksum, too; the signature as well: who types on stops there."""
    forged = list(strange)[:number]
    for name in forged:
        bare.write(f"/root/strange/{name}", strange[name])
        bare.shell(f"mount --bind /root/strange/{name} /root/{name}")
    try:
        status, output = places.on_machine(bare, typed(page, "node"))
    finally:
        bare.shell("umount " + " ".join(f"/root/{name}" for name in forged))
    begun = [line for line in output.splitlines() if line.startswith(session.MARK)]
    assert status != 0
    assert "sha256sum -c" in begun[-2], output
    assert begun[-1] == session.FAILED
    assert not any("mount" in line or "/mnt" in line for line in begun)
    assert ("metalk8s.iso: FAILED" in output) is (number == 1)


@pytest.mark.parametrize("page", pages("node"))
def test_page_on_a_machine(bare: Machine, page: str) -> None:
    """In the order of the table: from a bare machine to a cluster, and back."""
    status, output = places.on_machine(bare, typed(page, "node"))
    assert not session.verdict(page, status, output), session.verdict(page, status, output)


def test_machine_that_was_reset_can_be_installed_again(bare: Machine) -> None:
    """After the last page; `--check` calls what is left of another installation by name."""
    script = "mount -o loop,ro metalk8s.iso /mnt && /mnt/bootstrap.sh --check --key ./metalk8s.gpg"
    status, output = places.on_machine(bare, script)
    assert status == 0, output
    assert bare.shell("cat /var/lib/metalk8s/bootstrap.version 2>/dev/null || true") == ""


@pytest.mark.parametrize("page", pages("builder"))
def test_page_in_a_checkout(page: str, build_root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With the build that is there: what is up to date is not made again."""
    require("unshare", "skopeo", "nginx")
    assert build_root == ROOT / "_build", "the pages say _build"
    kept = {
        name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ
    }
    cache = context.load(ROOT, os.environ).layout.cache
    env = {**kept, "CACHE_ROOT": str(cache), "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
    status, output = places.in_copy(ROOT, tmp_path, typed(page, "builder"), env)
    assert not session.verdict(page, status, output), session.verdict(page, status, output)


def test_every_page_that_is_named_is_on_the_iso(iso_tree: pathlib.Path) -> None:
    """By scripts, states and other pages; the build's own check found it so, this looks again."""
    pattern = document_check.NAMED
    scripts = [path for path in iso_tree.iterdir() if path.suffix in (".sh", ".yaml")]
    trees = [
        path for name in ("metalk8s_bootstrap", "salt") for path in (iso_tree / name).rglob("*")
    ]
    named = {
        name
        for path in (*scripts, *trees)
        if path.is_file()
        for name in pattern.findall(path.read_text(encoding="utf-8"))
    }
    assert "docs/how-to/verify-a-medium.md" in named
    assert {name for name in named if not (iso_tree / name).is_file()} == set()
    for name in ("LICENSE", "CHANGELOG.md", "docs/README.md"):
        assert (iso_tree / name).read_bytes() == (ROOT / name).read_bytes()
