"""An update pack to the real ISO: killed at any moment, it is never a wrong one, and goes on."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence

import pytest

from buildchain.core.layout import Layout
from buildchain.signatures import signing
from buildchain.updates import make
from tests.bench import update
from tests.integration.conftest import ROOT, require, run

pytestmark = [pytest.mark.integration, pytest.mark.soak]

KILLS = 50
CHANGES, LENGTH = 32, 1 << 20  # places in which the older ISO is another, and their bytes


def older(iso: pathlib.Path, file: pathlib.Path) -> None:
    """Write an ISO that has something else here and there."""
    shutil.copyfile(iso, file)
    chance = random.Random(0)
    with file.open("r+b") as stream:
        for _ in range(CHANGES):
            stream.seek(chance.randrange(iso.stat().st_size - LENGTH))
            stream.write(chance.randbytes(chance.randint(1, LENGTH)))


def ends_within(argv: Sequence[str | pathlib.Path], limit: float, scratch: pathlib.Path) -> bool:
    """Run something; kill all of it when it takes longer."""
    scratch.mkdir()
    child = subprocess.Popen(
        argv, start_new_session=True, env={**os.environ, "TMPDIR": str(scratch)}
    )
    try:
        status = child.wait(limit)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        return child.wait() == 0
    finally:
        shutil.rmtree(scratch)
    assert status == 0
    return True


def test_fifty_kills(iso: pathlib.Path, tmp_path: pathlib.Path) -> None:
    require("gpg", "gpgv")
    file, pack, output = tmp_path / "old.iso", tmp_path / "pack", tmp_path / "new"
    older(iso, file)
    layout = Layout(tmp_path, tmp_path / "build", tmp_path / "cache", "demo")
    with signing.signer(layout, "") as signer:
        base = update.listed(file, tmp_path / "old", signer)
        keys = [signer.export(tmp_path / "key", "demo")[0], iso.parent / "keys/metalk8s.gpg"]
        images = (make.read(path, keys) for path in (base, iso))
        make.write(
            *images, pack, make.Wish(), keyrings=keys, signer=signer, epoch=update.EPOCH
        )  # fmt: skip
    file.unlink()
    script = ROOT / "salt/scripts/apply-update.sh"
    argv = ["sh", script, "-q", "--key", keys[0], "--from", base, pack, output]
    result, scratch = output / iso.name, tmp_path / "scratch"
    began = time.monotonic()
    assert ends_within(argv, 3600, scratch)
    whole, chance, killed, ended = time.monotonic() - began, random.Random(1), 0, 0
    while killed < KILLS:
        if result.exists():
            run("cmp", iso, result)
            shutil.rmtree(output)
            ended += 1
        killed += not ends_within(argv, chance.uniform(0, whole), scratch)
    assert ends_within(argv, 3600, scratch)
    run("cmp", iso, result)
    assert ended > 1, "what was killed comes to an end"
    assert not result.with_name(f"{result.name}.part").exists()
