"""``kill -9`` while images are pulled; ``METALK8S_KILLS`` says how often (the soak: 50)."""

import json
import os
import subprocess
import sys

from tests.registries import faulty, image_set, killing

KILLS = int(os.environ.get("METALK8S_KILLS", "6"))
UNIT = 1 << 20


def test_goes_on_after_kills(tmp_path):
    """The result is the same, and at most a unit of each blob comes again."""
    with faulty.serving() as served:
        images = {}
        for image, document, blobs in image_set.content(1 / 40):
            digest = served.add(image.name, image.tag, document, blobs)
            name = f"{image.name}:{image.tag}"
            images[name] = f"{served.address}/{name}@{digest}"
        served.pace = 4e6
        job = {"plain": [served.address], "images": images, "unit": UNIT}
        done = killing.kill_and_resume(job, tmp_path, kills=KILLS, seed=1, longest=1.5)
        store = tmp_path / "cache" / "store"
        assert done.kills == KILLS
        assert done.lost <= UNIT
        assert done.resumed > 0
        there = {p.name: p.read_bytes() for p in (store / "sha256").glob("*/*")}
        manifests = {image_set.digest(m): m for m in served.manifests.values()}
        assert there == {k[7:]: v for k, v in (manifests | served.blobs).items()}
        assert sorted(p.name for p in store.iterdir()) == ["partial", "sha256"]


def test_memory_does_not_grow_with_the_blob(tmp_path):
    size = 300_000_000
    with faulty.serving() as served:
        layer = bytes(size)
        config = image_set.configuration("big", [image_set.digest(layer)])
        document = image_set.manifest(config, [(image_set.digest(layer), size)])
        blobs = {image_set.digest(layer): layer, image_set.digest(config): config}
        digest = served.add("big", "1", document, blobs)
        served.piece = 1 << 20
        job = {"plain": [served.address], "images": {"big:1": f"{served.address}/big:1@{digest}"},
               "folder": str(tmp_path)}  # fmt: skip
        (tmp_path / "job.json").write_text(json.dumps(job))
        argv = [sys.executable, "-m", "tests.registries.puller", str(tmp_path / "job.json")]
        output = subprocess.run(argv, cwd=killing.ROOT, check=True, capture_output=True).stdout
    assert json.loads(output)["peak"] < 64 * 1024
