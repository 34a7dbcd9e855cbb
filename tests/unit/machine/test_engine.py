import os

import pytest

from buildchain.core.errors import BuildError, CommandError, EngineError, SpaceError
from buildchain.machine import engine as machine_engine


@pytest.fixture
def client(engine):
    with machine_engine.connect("docker") as client:
        yield client


def job(tmp_path, **changes):
    settings = {"name": "job", "image": "builder:1", "argv": ["make", "all"], "mounts": {}}
    return machine_engine.Run(**{**settings, **changes})


def test_endpoint_of_the_environment(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "ssh://far")
    assert machine_engine.endpoint("no-such-docker") == "ssh://far"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ({"output": "unix:///run/mine.sock\n"}, "unix:///run/mine.sock"),
        ({"output": "no such context", "status": 1}, ""),
        ({"output": ""}, ""),
    ],
)
def test_endpoint_of_the_commands_context(fake_program, monkeypatch, program, expected):
    monkeypatch.delenv("DOCKER_HOST")
    fake_program("my-docker", **program)
    assert machine_engine.endpoint("my-docker") == expected
    assert fake_program.calls("my-docker") == [
        ["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    ]


def test_nothing_answers():
    with (
        pytest.raises(EngineError, match="no Docker engine answers at tcp://127") as caught,
        machine_engine.connect("docker"),
    ):
        pass
    assert "DOCKER_HOST" in caught.value.solution


def test_an_engine_one_may_not_use():
    error = machine_engine.unreachable("unix:///s", "PermissionError(13, 'Permission denied')")
    assert "you may not use the Docker engine at unix:///s" in error.reason
    assert 'group "docker"' in error.solution


@pytest.mark.parametrize(
    ("message", "kind"),
    [("server boom", EngineError), ("write /var: no space left on device", SpaceError)],
)
def test_refusals_are_translated(engine, client, message, kind):
    engine.refuse["GET /images/.*"] = (500, {"message": message})
    with pytest.raises(kind) as caught, machine_engine.connect("docker") as other:
        machine_engine.has_image(other, "a:1")
    assert message in caught.value.details


def test_run(engine, client, tmp_path, recorded):
    engine.add_image("builder:1")
    engine.on_run = lambda _c: (0, b"line one\nbuild.sh: step 1 of 2\nh\xc3\xa9llo\nunfinished")
    output = machine_engine.run(
        client,
        job(
            tmp_path,
            mounts={tmp_path / "in": "/in", tmp_path / "out": "/out"},
            writable=frozenset({tmp_path / "out"}),
            environment={"GOCACHE": "/c", "TZ": "Mars"},
            workdir="/work",
        ),
    )
    assert output == "line one\nbuild.sh: step 1 of 2\nhéllo\nunfinished"
    (created,) = engine.created
    assert created["Image"] == "builder:1"
    assert created["Cmd"] == ["make", "all"]
    assert created["User"] == f"{os.getuid()}:{os.getgid()}"
    assert created["WorkingDir"] == "/work"
    assert created["Labels"] == {machine_engine.LABEL: "job"}
    assert created["HostConfig"]["NetworkMode"] == "none"
    assert sorted(created["HostConfig"]["Binds"]) == [
        f"{tmp_path}/in:/in:ro",
        f"{tmp_path}/out:/out:rw",
    ]
    assert sorted(created["Env"]) == ["GOCACHE=/c", "HOME=/tmp", "LC_ALL=C.UTF-8", "TZ=Mars"]
    assert engine.removed == ["job"]
    assert recorded.notes == ["step 1 of 2"]
    assert "$ (in builder:1) make all" in recorded.lines
    assert "line one" in recorded.lines


def test_a_failing_container(engine, client, tmp_path):
    engine.add_image("builder:1")
    engine.on_run = lambda _c: (2, b"cc: error\n")
    with pytest.raises(CommandError, match=r"job failed \(exit status 2\): job make all") as caught:
        machine_engine.run(client, job(tmp_path))
    assert caught.value.details == "cc: error"
    assert engine.removed == ["job"]


def test_a_container_that_fills_the_disk(engine, client, tmp_path):
    engine.add_image("builder:1")
    engine.on_run = lambda _c: (1, b"ld: final link failed: No space left on device\n")
    with pytest.raises(SpaceError):
        machine_engine.run(client, job(tmp_path))


def test_what_a_killed_build_left_is_removed_first(engine, client, tmp_path):
    engine.add_image("builder:1")
    engine.containers["job"] = {"Image": "old"}
    machine_engine.run(client, job(tmp_path))
    assert engine.removed == ["job", "job"]


def test_the_container_is_removed_when_the_engine_fails(engine, client, tmp_path):
    engine.add_image("builder:1")
    engine.refuse["POST /containers/job/wait"] = (500, {"message": "gone"})
    with pytest.raises(EngineError), machine_engine.connect("docker") as other:
        machine_engine.run(other, job(tmp_path))
    assert engine.removed == ["job"]


def test_missing_image(engine, tmp_path):
    with pytest.raises(EngineError) as caught, machine_engine.connect("docker") as client:
        machine_engine.run(client, job(tmp_path))
    assert "builder:1" in caught.value.details


def test_has_image_and_layers(engine, client):
    engine.add_image("a:1", ("sha256:x", "sha256:y"))
    assert machine_engine.has_image(client, "a:1")
    assert not machine_engine.has_image(client, "a:2")
    assert machine_engine.layers(client, "a:1") == ("sha256:x", "sha256:y")


def test_import_root(engine, client, tmp_path):
    tar = tmp_path / "root.tar"
    tar.write_bytes(b"tar" * 1000)
    machine_engine.import_root(client, tar, "metalk8s-base:0123")
    assert engine.imported == {"metalk8s-base:0123": tar.read_bytes()}
    assert machine_engine.has_image(client, "metalk8s-base:0123")


def test_build(engine, client, tmp_path, recorded):
    for name, mode in (("Dockerfile", 0o644), ("tool", 0o755)):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(mode)
    context = {"Dockerfile": tmp_path / "Dockerfile", "bin/tool": tmp_path / "tool"}
    engine.on_build = lambda *_a: [{"stream": "Step 1/1 : FROM x\n"}, {"aux": {}}, {"stream": "\n"}]
    machine_engine.build(client, "a:1", context, {"VERSION": "1"})
    assert engine.builds == [
        ("a:1", {"Dockerfile": b"Dockerfile", "bin/tool": b"tool"}, {"VERSION": "1"})
    ]
    assert "Step 1/1 : FROM x" in recorded.lines


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        ("The command returned 1", CommandError, "building image a:1 failed"),
        ("no space left on device", SpaceError, "the Docker engine ran out of disk space"),
    ],
)
def test_a_failing_build_shows_the_end_of_its_output(engine, client, tmp_path, error, kind, reason):
    (tmp_path / "Dockerfile").touch()
    engine.on_build = lambda *_a: [{"stream": f"{n}\n"} for n in range(50)] + [{"error": error}]
    with pytest.raises(BuildError, match=reason) as caught:
        machine_engine.build(client, "a:1", {"Dockerfile": tmp_path / "Dockerfile"}, {})
    assert type(caught.value) is kind
    lines = caught.value.details.splitlines()
    assert (lines[0], lines[-1]) == ("21", error)


def test_names_tell_build_roots_apart(tmp_path):
    name = machine_engine.own_name(tmp_path, "demo")
    assert name == machine_engine.own_name(tmp_path, "demo")
    assert name != machine_engine.own_name(tmp_path / "other", "demo")
    assert name.endswith("-demo")


def test_equal_contexts_have_equal_bytes(tmp_path):
    packed = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        files = {}
        for name in ("b", "a") if folder == "one" else ("a", "b"):
            files[name] = tmp_path / folder / name
            files[name].write_text(name)
            os.utime(files[name], (len(folder), 5 if folder == "one" else 6))
        with machine_engine._context_archive(files) as stream:
            packed.append(stream.read())
    assert packed[0] == packed[1]


def test_running_containers_end_with_the_process(engine, client, tmp_path):
    engine.add_image("builder:1")
    engine.containers["job"] = {"Image": "builder:1"}
    machine_engine._RUNNING["job"] = client
    try:
        machine_engine._stop_running()
    finally:
        machine_engine._RUNNING.clear()
    assert engine.removed == ["job"]
    machine_engine._stop_running()
