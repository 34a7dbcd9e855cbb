"""Fixtures of the unit tests: a layout in a temporary folder, a development key, an engine."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import shutil
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from buildchain.core import events
from buildchain.core.layout import Layout
from buildchain.project import context
from buildchain.signatures import signing
from tests.unit import bootstrap, engine_api
from tests.unit.archive import Archive
from tests.unit.repairs import WHOLE, Copies, Home
from tests.unit.running import Result, run_doit

EXAMPLES = int(os.environ.get("METALK8S_EXAMPLES", "40"))  # of each property; many more in a soak
# No deadline: machines that build are busy. No database: tests leave nothing in the checkout.
hypothesis.settings.register_profile("unit", deadline=None, max_examples=EXAMPLES, database=None)
hypothesis.settings.load_profile("unit")

# The modules that take longest: begun last, one of them would keep one processor busy for minutes
# while the other has nothing to do.
LONG = (
    "test_increments.py",
    "signatures/test_run.py",
    "test_dodo.py",
    "release/test_run.py",
    "publication/test_remote.py",
    "store/test_secrets.py",
    "core/test_roots.py",
    "store/test_pull.py",
    "test_verify_repair.py",
    "salt/test_enrolment.py",
    "updates/test_kill.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the modules first that take longest."""
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(LONG)))


@pytest.fixture(autouse=True)
def _clean_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Take away what the developer's shell has set and what would leave the machine."""
    from buildchain.project import config

    for option in config.OPTIONS:
        monkeypatch.delenv(option.name, raising=False)
    for name in ("NO_COLOR", "GNUPGHOME", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    # Nothing listens there: a test that forgets the fake engine fails instead of using a real one.
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def fake(tmp_path: Path) -> bootstrap.Fake:
    """Return a machine to bootstrap, on which all is well."""
    return bootstrap.make(tmp_path / "machine")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Return the paths of a build in a temporary folder."""
    layout = Layout(
        root=tmp_path / "checkout",
        build=tmp_path / "build",
        cache=tmp_path / "cache",
        project="demo",
    )
    for folder in (layout.root, layout.build, layout.cache):
        folder.mkdir()
    return layout


@pytest.fixture
def engine(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[engine_api.Engine]:
    """Provide a fake Docker engine, where DOCKER_HOST points."""
    # docker-py leaves the connection of a stream that is not read to its end to the collector.
    request.node.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
    with engine_api.serving() as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        yield engine
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    assert engine.unknown == []


@pytest.fixture(scope="session")
def development_key(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], str]
) -> Path:
    """Return a secret key made once for all tests, by the code that makes it in a build."""
    require("gpg")
    folder = tmp_path_factory.mktemp("key")
    layout = Layout(folder, folder / "build", folder / "cache", "demo")
    with signing.signer(layout, ""):
        return layout.development_key


@pytest.fixture
def keyed(layout: Layout, development_key: Path) -> Layout:
    """Return a layout whose cache has the development key."""
    layout.development_key.parent.mkdir(parents=True)
    shutil.copy2(development_key, layout.development_key)
    return layout


class Recorder(logging.Handler):
    """Keeps the events of a build."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.notes: list[str] = []
        self.echoed: list[str] = []
        self.progress: list[events.Progress] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if hasattr(record, "note"):
            self.notes.append(record.note)
        if hasattr(record, "echo"):
            self.echoed.append(record.echo)
        if hasattr(record, "progress"):
            self.progress.append(record.progress)


@pytest.fixture
def recorded() -> Iterator[Recorder]:
    """Provide the events that are emitted during a test."""
    recorder = Recorder()
    events.LOGGER.addHandler(recorder)
    events.LOGGER.setLevel(logging.DEBUG)
    yield recorder
    events.LOGGER.removeHandler(recorder)


@pytest.fixture(autouse=True)
def _no_handler_survives() -> Iterator[None]:
    """Close the transcripts that a test opened."""
    raises, propagates = logging.raiseExceptions, events.LOGGER.propagate
    yield
    logging.raiseExceptions, events.LOGGER.propagate = raises, propagates
    for handler in list(events.LOGGER.handlers):
        events.LOGGER.removeHandler(handler)
        handler.close()


@pytest.fixture
def make_tar(tmp_path: Path) -> Callable[..., Path]:
    """Provide a writer of tars: name to text, ``None`` for a folder, or a prepared TarInfo."""
    import io

    def make(name: str, entries: dict[str, object], *, mtime: int = 0) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            for entry, content in entries.items():
                member = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(entry)
                member.mtime = mtime
                if content is None:
                    member.type, member.mode = tarfile.DIRTYPE, 0o755
                data = content.encode() if isinstance(content, str) else b""
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return path

    return make


@pytest.fixture
def archive(fake_program: object, tmp_path: Path) -> Archive:
    """Provide a Debian archive."""
    return Archive(fake_program, tmp_path / "archive")


@pytest.fixture(scope="session")
def iso_home(tmp_path_factory):
    """Return who signs, with the list of a small ISO."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.list_of(WHOLE, home.folder / "iso.blocks")
    yield home
    home.close()


@pytest.fixture
def copies(tmp_path_factory, iso_home, root):
    """Return a call that makes a folder for copies of that ISO."""
    script = root / "salt/scripts/verify.sh"
    return lambda: Copies(tmp_path_factory.mktemp("copies"), iso_home, script)


@pytest.fixture
def doit_with_a_key(
    root: Path, tmp_path: Path, development_key: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Callable[..., Result]]:
    """Run ./doit.sh with a cache that has a key, from a folder of its own; settings first."""

    def run(*argv: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["doit", *argv])
        monkeypatch.delitem(sys.modules, "dodo", raising=False)
        context.current.cache_clear()
        try:
            return run_doit(root, vars(importlib.import_module("dodo")), *argv)
        finally:
            context.current.cache_clear()

    def start(**settings: str) -> Callable[..., Result]:
        folders = {"BUILD_ROOT": "build", "CACHE_ROOT": "cache", "CALLED_FROM": "."}
        places = {name: str(tmp_path / folder) for name, folder in folders.items()}
        for name, value in {**places, **settings}.items():
            monkeypatch.setenv(name, value)
        keys = tmp_path / "cache" / "keys"
        keys.mkdir(parents=True)
        (keys / "development.key").write_bytes(development_key.read_bytes())
        return run

    return start
