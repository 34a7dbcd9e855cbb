"""The rules around the solver; the real one is tested in ``tests/integration``."""

import dataclasses
import hashlib
import json
import logging

import pytest

from buildchain.core.errors import ChecksumError, FetchError, PinError, SigningError, ToolError
from buildchain.project.model import RedhatFile, RedhatRepository
from buildchain.redhat import closure
from buildchain.store.blobs import Store

CONTENT = b"an RPM"
FILE = RedhatFile(
    name="demo", epoch=0, version="1", release="2.el8", architecture="noarch",
    file="demo-1-2.el8.noarch.rpm", size=len(CONTENT), repository="mirror",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)  # fmt: skip
BUILT = dataclasses.replace(FILE, name="built", file="built.rpm", repository="ours")

# Stands for dnf's Python: keeps the request, answers with the next document of `answers`.
SOLVER = """
import json, pathlib
request = json.loads(pathlib.Path(argv[-1]).read_text())
answers = pathlib.Path({answers!r})
first, *rest = json.loads(answers.read_text())
answers.write_text(json.dumps(rest))
with open({requests!r}, "a") as stream:
    stream.write(json.dumps(request) + "\\n")
print("noise of a library")
for file in request.get("exactly", []) if "packages" in first else []:
    folder = pathlib.Path(request["folder"], file["repository"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file["file"]).write_bytes({content!r})
    print(json.dumps({{"progress": [1, 1]}}))
print(json.dumps(first))
"""
GOOD = "for path in argv:\n    print(path + ':\\n    Header Signature, key ID 1: OK')"
UNSIGNED = (
    "if '--import' in argv: sys.exit(0)\n"
    "for path in argv:\n    print(path + ':\\n    Header RSA signature: NOTFOUND')"
)


class Solver:
    def __init__(self, folder, programs):
        self.answers, self.requests = folder / "answers", folder / "requests"
        script = SOLVER.format(
            answers=str(self.answers), requests=str(self.requests), content=CONTENT
        )
        python = programs("python-of-dnf", script)
        (programs.folder / "dnf").write_text(f"#!{python} -s\nimport dnf\n", encoding="utf-8")
        (programs.folder / "dnf").chmod(0o755)

    def will_say(self, *answers):
        self.answers.write_text(json.dumps(answers), encoding="utf-8")
        self.requests.write_text("", encoding="utf-8")

    @property
    def heard(self):
        return [json.loads(line) for line in self.requests.read_text("utf-8").splitlines()]


def packages(*files):
    return {"packages": [dataclasses.asdict(file) for file in files]}


@pytest.fixture
def solver(tmp_path, fake_program):
    fake_program("rpmkeys", GOOD)
    return Solver(tmp_path, fake_program)


@pytest.fixture
def system(tmp_path):
    key = tmp_path / "key.asc"
    key.write_text("a public key", encoding="utf-8")
    mirror, ours = (RedhatRepository(name, f"file:///{name}", key) for name in ("mirror", "ours"))
    return closure.System("8", (mirror,), ("bash",), ours)


def test_resolve(layout, system, solver, caplog):
    solver.will_say(packages(FILE, BUILT), packages(FILE))
    with caplog.at_level(logging.INFO, logger="metalk8s.build"):
        assert closure.resolve(layout, "node", system, ["demo"]) == (FILE,)
    solve, download = solver.heard
    assert (solve["minimal"], solve["wanted"], solve["release"]) == (["bash"], ["demo"], "8")
    assert [file["name"] for file in download["exactly"]] == ["demo"]
    assert Store(layout.store).path(FILE.sha256).read_bytes() == CONTENT
    assert "RPMs for node 1/1 packages" in caplog.text
    assert list(layout.temporary.iterdir()) == []


def test_what_the_store_has_is_verified_and_not_downloaded(layout, system, solver, fake_program):
    add(layout)
    solver.will_say(packages(FILE))
    assert closure.resolve(layout, "node", system, ["demo"]) == (FILE,)
    fake_program("rpmkeys", UNSIGNED, status=1)
    solver.will_say(packages(FILE))
    with pytest.raises(SigningError, match=r"demo-1-2\.el8\.noarch\.rpm: it is not signed"):
        closure.resolve(layout, "node", system, ["demo"])


def add(layout):
    file = layout.build / "file"
    file.write_bytes(CONTENT)
    Store(layout.store).add(file, FILE.sha256, origin="test")


def test_nothing_that_is_unsigned_enters_the_store(layout, system, solver, fake_program):
    fake_program("rpmkeys", UNSIGNED, status=1)
    solver.will_say(packages(FILE), packages(FILE))
    with pytest.raises(SigningError, match="packages of the repository mirror"):
        closure.resolve(layout, "node", system, ["demo"])
    assert not Store(layout.store).has(FILE.sha256)


def test_other_bytes_do_not_enter_the_store(layout, system, solver):
    other = dataclasses.replace(FILE, sha256="0" * 64)
    solver.will_say(packages(other), packages(other))
    with pytest.raises(ChecksumError, match="mirror: demo-1-2"):
        closure.resolve(layout, "node", system, ["demo"])


def test_a_repository_that_changes_meanwhile_is_asked_once_more(layout, system, solver):
    gone = {"problem": {"kind": "gone", "names": ["demo"]}}
    solver.will_say(packages(FILE), gone, packages(FILE), packages(FILE))
    assert closure.resolve(layout, "node", system, ["demo"]) == (FILE,)
    Store(layout.store).path(FILE.sha256).unlink()
    solver.will_say(packages(FILE), gone, packages(FILE), gone)
    with pytest.raises(FetchError, match="keep changing"):
        closure.resolve(layout, "node", system, ["demo"])


@pytest.mark.parametrize("answers", [0, 1])
def test_refusals_come_in_words(layout, system, solver, answers):
    refusal = {"problem": {"kind": "missing", "names": ["demo"]}}
    solver.will_say(*[packages(FILE)] * answers, refusal)
    with pytest.raises(FetchError, match="no package demo in the repositories mirror, ours"):
        closure.resolve(layout, "node", system, ["demo"])


def test_fetch_exactly(layout, system, solver):
    solver.will_say({"problem": {"kind": "gone", "names": ["demo"]}})
    assert not closure.fetch_exactly(layout, "node", system, [FILE])
    solver.will_say(packages(FILE))
    assert closure.fetch_exactly(layout, "node", system, [FILE])
    solver.will_say()
    assert closure.fetch_exactly(layout, "node", system, [FILE])
    assert solver.heard == [], "the store has it"


def test_a_key_that_is_not_there(layout, system):
    system.ours.key.unlink()
    with pytest.raises(PinError, match=r"key\.asc \(mirror\), .*key\.asc \(ours\)"):
        closure.resolve(layout, "node", system, ["demo"])


def test_metadata_are_kept_apart_for_other_keys(layout, system, solver):
    for text in ("a public key", "another one"):
        system.ours.key.write_text(text, encoding="utf-8")
        solver.will_say(packages())
        closure.resolve(layout, "node", system, ["demo"])
        [heard] = solver.heard
        system.ours.key.with_suffix(f".{len(text)}").write_text(heard["state"], encoding="utf-8")
    states = [path.read_text("utf-8") for path in system.ours.key.parent.glob("key.[0-9]*")]
    assert len(set(states)) == 2


@pytest.mark.parametrize("content", [None, "\x7fELF"])
def test_without_dnf(layout, system, tmp_path, monkeypatch, content):
    folder = tmp_path / "bin"
    folder.mkdir()
    if content:
        (folder / "dnf").write_text(content, encoding="utf-8")
        (folder / "dnf").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(ToolError, match="dnf"):
        closure.resolve(layout, "node", system, ["demo"])


def test_lists(layout, system, tmp_path):
    add(layout)
    made = closure.list_closure(layout, "node-el8", [FILE], ["demo 1-1 -> 1-2.el8"])
    assert made.facts == {"packages": 1, "replaced": ["demo 1-1 -> 1-2.el8"]}
    assert closure.read_closure(layout.closure("node-el8")) == (FILE,)
    [linked] = closure.link_closure(layout, "node-el8", tmp_path / "folder")
    assert (linked.name, linked.read_bytes()) == (FILE.file, CONTENT)
