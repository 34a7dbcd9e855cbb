from collections.abc import Iterator

import pytest

from buildchain.locks import steps as locks
from buildchain.machine import steps as machine
from buildchain.medium import steps as medium
from buildchain.project import context
from buildchain.project.context import Context
from buildchain.redhat import steps as redhat
from buildchain.repositories import steps as repositories


@pytest.fixture(params=["default", "upstream"])
def profile(request, monkeypatch, tmp_path) -> Iterator[str]:
    """Return a profile of the checkout, which is the current one."""
    for name, value in {
        "PROFILE": request.param,
        "BUILD_ROOT": str(tmp_path / "build"),
        "CACHE_ROOT": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    context.current.cache_clear()
    yield request.param
    context.current.cache_clear()


@pytest.fixture
def site(profile) -> Context:
    return context.current()


def needs(tasks, name):
    """Return the receipts that a task needs."""
    [task] = [task for task in tasks if task.get("name") == name]
    return {dependency.name for dependency in task["file_dep"] if dependency.suffix == ".json"}


def test_only_mirrors_make_closures(profile, site):
    found = [task["name"] for task in redhat.task__redhat_closure()]
    assert found == {"default": [], "upstream": ["node-el8", "node-el9"]}[profile]
    receipts = {f"redhat_closure.{name}.json" for name in found}
    repository = needs(repositories.task__package_repository(), "redhat")
    assert repository == {"package_sign.json", "iso_key.json", *receipts}
    [record] = list(locks.task__lock_record())
    assert receipts <= {path.name for path in record["file_dep"]}


def test_a_closure_stands_on_what_we_build(profile, site):
    for release in redhat.releases(site):
        assert needs(redhat.task__redhat_closure(), f"node-el{release}") == {
            "package_sign.json",
            "iso_key.json",
        }
        system = redhat.system(site, release)
        assert system.ours is not None
        assert [r.name for r in system.every] == ["BaseOS", "AppStream", "metalk8s"]
        assert {f"/{release}/" in r.url for r in system.repositories} == {True}


def test_tools_and_locks(profile, site):
    is_mirrored = profile == "upstream"
    tools = {tool.name for tool in machine.tools_for(site, *machine.build_purposes(site))}
    assert ("dnf" in tools) == is_mirrored
    names = {task["name"] for task in locks.task_lock()}
    assert ("redhat" in names) == is_mirrored


def test_vendors_keys_are_on_the_medium(profile, site):
    [part] = [part for part in medium.parts(site) if part.target == "keys/redhat"]
    assert part.source == site.layout.rpm_keys
    places = [place for place, _ in redhat.keys(site)]
    expected = [f"{r}/{name}.asc" for r in ("8", "9") for name in ("BaseOS", "AppStream")]
    assert places == (expected if profile == "upstream" else [])
