"""Whose engine answers, and how this machine's own is started."""

import http.server
import os
import signal
import socketserver
import threading
import time
from pathlib import Path

import pytest

from buildchain.core.errors import EngineAccessError, EngineError, ToolError
from buildchain.machine import engine_service

# docker-py leaves the socket of a client that could not be made to the collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
STAYS = "import time\nopen({pid!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
SAYS = "print('failed to start daemon: no room for bridge'); sys.exit(1)"
CONTEXT = "if argv[:2] == ['context', 'inspect']: print({!r}); sys.exit(0)"


@pytest.fixture
def place(tmp_path, monkeypatch, fake_program):
    """Provide a machine of root's without systemd whose own socket is in a temporary folder."""
    socket = f"unix://{tmp_path}/docker.sock"
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("PATH", str(fake_program.folder) + ":/usr/bin:/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(engine_service, "OWN", ("", socket))
    monkeypatch.setattr(engine_service, "LOG", tmp_path / "dockerd.log")
    monkeypatch.setattr(engine_service, "SYSTEMD", tmp_path / "no-systemd")
    monkeypatch.setattr(engine_service, "BETWEEN_TRIES", 0.02)
    monkeypatch.setattr(engine_service.programs, "SYSTEM_FOLDERS", ())
    fake_program("docker", CONTEXT.format(socket))
    yield tmp_path
    pid = tmp_path / "pid"
    if pid.exists():
        os.kill(int(pid.read_text()), signal.SIGKILL)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        answers = {"/_ping": b"OK"}
        body = answers.get(
            self.path[self.path.rindex("/") :], b'{"ApiVersion": "1.41", "Version": "20.10.24"}'
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        pass


@pytest.fixture
def serve(place):
    """Return what makes an engine answer at the machine's own socket."""
    servers = []

    def start():
        server = _Server(str(place / "docker.sock"), _Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_an_engine_that_answers(engine):
    standing = engine_service.look("docker")
    assert (standing.where, standing.version, standing.error) == (engine.url, "24.0.5", None)
    assert standing.is_elsewhere
    assert engine_service.answers("docker") is True
    engine_service.ensure("docker", "17.03")
    assert engine_service.will_do("docker", "17.03")


def test_an_engine_that_is_too_old(engine):
    assert not engine_service.will_do("docker", "25.0")
    with pytest.raises(EngineError, match=r"is 24\.0\.5, below 25\.0"):
        engine_service.ensure("docker", "25.0")


CONTEXT_ELSEWHERE = CONTEXT.format("tcp://127.0.0.1:1")
NO_CONTEXT = "sys.stderr.write('context \"gone\" does not exist'); sys.exit(1)"


@pytest.mark.parametrize(
    ("variables", "docker", "reason", "remedy"),
    [
        (
            {"DOCKER_HOST": "tcp://127.0.0.1:1"}, None,
            "no Docker engine answers at tcp://127.0.0.1:1, where DOCKER_HOST points",
            "unset DOCKER_HOST",
        ),
        (
            {"DOCKER_HOST": "unix:///run/user/1000/docker.sock"}, "",
            "no Docker engine answers at unix:///run/user/1000/docker.sock, where DOCKER_HOST",
            "unset DOCKER_HOST",
        ),
        (
            {"DOCKER_CONTEXT": "far"}, CONTEXT_ELSEWHERE,
            "no Docker engine answers at tcp://127.0.0.1:1, where DOCKER_CONTEXT points",
            "unset DOCKER_CONTEXT",
        ),
        (
            {}, CONTEXT_ELSEWHERE,
            "no Docker engine answers at tcp://127.0.0.1:1, where the current docker context",
            "run docker context use default",
        ),
        (
            {"DOCKER_CONTEXT": "gone"}, NO_CONTEXT,
            "no Docker engine answers at context gone, where DOCKER_CONTEXT points",
            "unset DOCKER_CONTEXT",
        ),
    ],
)  # fmt: skip
def test_an_engine_elsewhere_that_is_silent_is_not_replaced(
    place, fake_program, monkeypatch, variables, docker, reason, remedy
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if docker is not None:
        fake_program("docker", docker)
    standing = engine_service.look("docker")
    assert standing.is_elsewhere
    assert not standing.is_absent, "nothing is installed here in its place"
    fake_program("dockerd")
    with pytest.raises(EngineError) as caught:
        engine_service.ensure("docker", "17.03")
    assert caught.value.reason.startswith(reason)
    assert remedy in caught.value.solution
    assert fake_program.calls("dockerd") == []


@pytest.mark.parametrize("has_server", [False, True])
@pytest.mark.parametrize("has_client", [False, True])
def test_a_silent_machine(place, fake_program, has_client, has_server):
    if not has_client:
        (fake_program.folder / "docker").unlink()
    if has_server:
        fake_program("dockerd")
    standing = engine_service.look("no-docker" if not has_client else "docker")
    assert standing.error is not None
    assert not standing.is_elsewhere
    assert standing.is_absent is not has_server


def test_an_engine_for_others_is_neither_installed_nor_started(place, fake_program, monkeypatch):
    from buildchain.machine import engine

    refused = EngineAccessError("you may not use it", solution="Join the group.")
    monkeypatch.setattr(engine, "connect", lambda *_args, **_more: _raise(refused))
    fake_program("dockerd")
    assert not engine_service.look("docker").is_absent
    with pytest.raises(EngineAccessError, match="may not use"):
        engine_service.ensure("docker", "17.03")
    assert fake_program.calls("dockerd") == []


def _raise(error):
    raise error


def test_start_without_systemd(place, serve, fake_program, recorded):
    """It is waited for, not slept for: the socket comes a while after the daemon."""
    fake_program("dockerd", STAYS.format(pid=str(place / "pid")))
    timer = threading.Timer(0.3, serve)
    timer.start()
    engine_service.ensure("docker", "17.03")
    timer.join()
    assert any("starting the Docker engine" in note for note in recorded.notes)
    assert engine_service.answers("docker")


def test_an_engine_that_ends_early_says_why(place, fake_program):
    """At once, with what it logged this time."""
    (place / "dockerd.log").write_text("of yesterday\n")
    fake_program("dockerd", SAYS)
    since = time.monotonic()
    with pytest.raises(EngineError, match="was started and ended before it answered") as caught:
        engine_service.ensure("docker", "17.03")
    assert time.monotonic() - since < engine_service.PATIENCE / 2
    assert caught.value.details == "failed to start daemon: no room for bridge"
    assert str(place / "dockerd.log") in caught.value.solution


def test_an_engine_that_never_answers(place, fake_program, monkeypatch):
    monkeypatch.setattr(engine_service, "PATIENCE", 0.3)
    fake_program("dockerd", "print('loading', flush=True)\n" + STAYS.format(pid=str(place / "pid")))
    with pytest.raises(EngineError, match=r"does not answer after 0\.3 s") as caught:
        engine_service.ensure("docker", "17.03")
    assert str(place / "dockerd.log") in caught.value.solution


def test_no_server_to_start(place):
    with pytest.raises(ToolError, match="dockerd is missing"):
        engine_service.ensure("docker", "17.03")


@pytest.fixture
def systemd(place, monkeypatch):
    monkeypatch.setattr(engine_service, "SYSTEMD", place)
    return place


def test_start_through_systemd(systemd, serve, fake_program):
    fake_program("systemctl", f"open({str(systemd / 'started')!r}, 'w')")
    watcher = threading.Thread(target=_serve_when, args=(systemd / "started", serve))
    watcher.start()
    engine_service.ensure("docker", "17.03")
    watcher.join()
    assert fake_program.calls("systemctl")[0] == ["start", "docker"]


def _serve_when(path: Path, serve):
    while not path.exists():
        time.sleep(0.01)
    serve()


def test_systemd_that_cannot_start_it(systemd, fake_program):
    fake_program("systemctl", output="Job for docker.service failed", status=1)
    fake_program("journalctl", output="failed to start daemon: no room for bridge\n")
    with pytest.raises(EngineError, match="systemd cannot start the Docker engine") as caught:
        engine_service.ensure("docker", "17.03")
    assert caught.value.details == "failed to start daemon: no room for bridge"
    fake_program("journalctl", status=1)
    with pytest.raises(EngineError) as caught:
        engine_service.ensure("docker", "17.03")
    assert caught.value.details == "Job for docker.service failed"


def test_a_unit_that_ends_early(systemd, fake_program):
    fake_program("systemctl", "sys.exit(3 if argv[0] == 'is-active' else 0)")
    fake_program("journalctl", output="no space for /var/lib/docker\n")
    with pytest.raises(EngineError, match="ended before it answered") as caught:
        engine_service.ensure("docker", "17.03")
    assert caught.value.details == "no space for /var/lib/docker"
    assert "journalctl -u docker" in caught.value.solution
