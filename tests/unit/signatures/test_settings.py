"""The settings and the tasks of a build whose key is elsewhere."""

import dataclasses

import pytest
from doit.exceptions import TaskFailed

from buildchain.core.errors import ConfigError
from buildchain.machine import steps as machine
from buildchain.medium import steps as medium
from buildchain.project import config, context
from buildchain.redhat.steps import task__package_sign
from buildchain.repositories import steps as repositories
from buildchain.signatures import steps as signatures
from buildchain.sources import steps as sources


def test_keys_are_named_too(root, tmp_path):
    ring = tmp_path / "ring"
    ring.touch()
    with pytest.raises(ConfigError, match="SIGNING_PUBLIC_KEY is set: expected SIGNING_KEY too"):
        config.load(root, {"SIGNING_PUBLIC_KEY": str(ring)})
    with pytest.raises(ConfigError, match="SIGNING_PUBLIC_KEY=/none: expected a file that exists"):
        config.load(root, {"SIGNING_PUBLIC_KEY": "/none", "SIGNING_KEY": "AB" * 20})
    given = {"SIGNING_PUBLIC_KEY": str(ring), "SIGNING_KEY": "AB" * 20}
    loaded = context.load(root, {**given, "BUILD_ROOT": str(tmp_path / "b")})
    assert loaded.layout.public_keys == ring
    assert loaded.lock_policy == "strict", "it is a release"


@pytest.fixture
def build(root, tmp_path):
    return context.load(root, {"BUILD_ROOT": str(tmp_path / "build")})


@pytest.mark.parametrize(
    ("call", "problem", "remedy"),
    [
        (
            lambda build: signatures._request(build, ""),
            "was not told where to write",
            "--output FILE",
        ),
        (
            lambda build: signatures._request(build, "x"),
            "no step waits for a signature",
            "Build first",
        ),
        (lambda _: signatures._sign([], "x"), "sign takes one request", "--output ANSWER FILE"),
        (
            lambda _: signatures._sign(["a", "b"], "x"),
            "sign takes one request",
            "--output ANSWER FILE",
        ),
        (lambda _: signatures._sign(["a"], ""), "sign takes one request", "--output ANSWER FILE"),
        (
            lambda _: signatures._sign(["/none"], "x"),
            "/none cannot be read as a tar",
            "Copy it again",
        ),
        (lambda build: signatures._import(build, []), "none was named", "sign_import ANSWER"),
        (lambda build: signatures._import(build, ["x"]), "SIGNING_PUBLIC_KEY is not set", "Set it"),
    ],
)
def test_mistakes_are_told(build, keyed, call, problem, remedy):
    build = dataclasses.replace(build, layout=keyed)
    failed = call(build)
    assert isinstance(failed, TaskFailed)
    assert problem in failed.get_msg()
    assert remedy in failed.get_msg().partition("What to do:")[2]


@pytest.mark.parametrize("profile", ["default", "upstream"])
def test_whatever_signs_first_forgets_what_was_wanted(root, tmp_path, monkeypatch, profile):
    """A step that asks for signatures comes after what takes away those of the run before."""
    ring = tmp_path / "ring"
    ring.touch()
    given = {"SIGNING_PUBLIC_KEY": str(ring), "SIGNING_KEY": "AB" * 20, "PROFILE": profile}
    for name, value in {**given, "BUILD_ROOT": str(tmp_path / "b")}.items():
        monkeypatch.setenv(name, value)
    context.current.cache_clear()
    try:
        made = [
            *(
                medium.task__iso_populate(),
                medium.task__iso_digest(),
                medium.task__iso_provenance(),
            ),
            *(sources.task__sources_sign(), sources.task__sources_populate()),
            *(sources.task__sources_digest(), task__package_sign()),
            repositories.task__package_repository(),
        ]
        tasks = [task for each in made for task in each]
    finally:
        context.current.cache_clear()
    assert len(tasks) == 9
    assert [task["basename"] for task in tasks if machine.SIGNATURES not in task["task_dep"]] == []
