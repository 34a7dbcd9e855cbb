import dataclasses
import shutil

import pytest

from buildchain.core import receipt
from buildchain.images import steps as images
from buildchain.project import context
from buildchain.project.catalog import Catalog
from buildchain.project.model import PulledImage
from buildchain.pulls import steps as pulls
from tests.registries import faulty, image_set


@pytest.fixture
def site(monkeypatch, tmp_path):
    """Pin one image of a registry beside what the default profile has."""
    with faulty.serving() as served:
        document, blobs = image_set.oci("app", "amd64")
        digest = served.add("app", "1.0", document, blobs)
        for name, value in {
            "BUILD_ROOT": tmp_path / "build",
            "CACHE_ROOT": tmp_path / "cache",
            "PLAIN_HTTP_REGISTRIES": served.address,
        }.items():
            monkeypatch.setenv(name, str(value))
        context.current.cache_clear()
        there = context.current()
        pin = PulledImage("org/app", f"{served.address}/app:1.0", digest)
        catalog: Catalog = dataclasses.replace(there.catalog, pulled_images=(pin,))
        yield dataclasses.replace(there, catalog=catalog)
        context.current.cache_clear()


def test_a_profile_without_such_images_has_no_such_steps(site):
    assert list(pulls.task__images_fetch()) == []
    assert list(pulls.task__image_pull()) == []
    assert "_images_fetch" not in str(images.task_images())


def test_steps(site):
    fetch, lay_out = pulls.steps(site)
    assert fetch.task()["basename"] == "_images_fetch"
    assert lay_out.task()["name"] == "org/app"
    assert site.layout.receipt(pulls.FETCH) in lay_out.task()["file_dep"]
    assert images.image_steps(site)[-1] == lay_out.name


def test_what_is_here_is_not_fetched_again(site):
    fetch, lay_out = pulls.steps(site)
    assert fetch.holds is not None
    assert not fetch.holds()
    for step in (fetch, lay_out):
        receipt.write(step.receipt, site.layout.build, step.action())
        assert fetch.holds()
    tree = site.layout.images / "org" / "app" / "1.0"
    assert receipt.read(lay_out.receipt).facts["version"] == "1.0"
    shutil.rmtree(site.layout.store)
    assert fetch.holds(), "the tree has all"
    shutil.rmtree(tree)
    assert not fetch.holds()
    fetch.action()
    assert fetch.holds()
    damaged = next(p for p in (site.layout.store / "sha256").glob("*/*") if p.stat().st_size > 1000)
    damaged.write_bytes(b"")
    assert not fetch.holds()
