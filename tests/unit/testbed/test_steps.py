import pytest

from buildchain.project import context
from buildchain.testbed import steps as testbed


@pytest.fixture
def settings(monkeypatch, tmp_path):
    """Let the settings be read afresh, with a build root of their own."""
    monkeypatch.setenv("BUILD_ROOT", str(tmp_path / "build"))
    monkeypatch.setenv("CACHE_ROOT", str(tmp_path / "cache"))
    context.current.cache_clear()
    yield monkeypatch
    context.current.cache_clear()


@pytest.mark.parametrize(("provider", "has_image"), [("docker", True), ("virtualbox", False)])
def test_only_containers_need_the_node_image(settings, provider, has_image):
    settings.setenv("VAGRANT_PROVIDER", provider)
    task = testbed.task_vagrant_up()
    assert task["basename"] == "vagrant_up"
    assert "populate_iso" in task["task_dep"]
    assert "check_for:vagrant" in task["task_dep"]
    assert (testbed.IMAGE in task["task_dep"]) is has_image


def test_restore_names_the_snapshot(settings):
    settings.setenv("VAGRANT_SNAPSHOT_NAME", "mine")
    task = testbed.task_vagrant_restore()
    assert task["title"](None) == "RESTORE        snapshot mine of bootstrap"
    assert "populate_iso" not in task["task_dep"], "a restored machine needs no new build"


def test_what_they_stand_on(settings):
    (image,) = testbed.task__testbed_image()
    assert context.current().layout.receipt(testbed.CLOSURE) in image["file_dep"]
    (key,) = testbed.task__vagrant_key()
    assert key["title"](None) == "MAKE           SSH key of the machines"


def test_the_node_image_is_made_again_when_needed(settings, engine, tmp_path):
    from buildchain.core import receipt
    from buildchain.core.receipt import Made
    from tests.unit.debian.test_base import closure

    layout = context.current().layout
    engine.add_image("base:1")
    closure(layout, "testbed", "systemd")
    receipt.write(layout.receipt("_base_image"), layout.build, Made(facts={"reference": "base:1"}))
    reference = testbed.machines(context.current()).node_image()
    assert reference in engine.images
    assert testbed._image(context.current()).facts == {"reference": reference}
    assert len(engine.builds) == 1
