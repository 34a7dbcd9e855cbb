import dataclasses
import hashlib
import json

import pytest

from buildchain.core.errors import LockError
from buildchain.debian import archive, lock
from buildchain.debian.lock import Entry
from buildchain.locks import check
from buildchain.locks import steps as locks
from buildchain.project import context
from buildchain.project.model import DebianFile, RedhatFile

SHA = "ab" * 32
WANTED = {"base": ("a", "?essential"), "floor": ("d",), "node": ("b",), "builder": ("c", "a")}


def deb(name, version="1:2-1"):
    file = f"{name}_{version.replace(':', '%3a')}_amd64.deb"
    return DebianFile(name, version, "amd64", file, 1, SHA)


def rpm(name):
    return RedhatFile(name, 0, "1", "2", "noarch", f"Packages/{name}-1-2.noarch.rpm", 1, SHA, "os")


def entries():
    base, least = (deb("a"),), (deb("d"),)
    on_base, on_floor = (
        hashlib.sha256(archive.list_text(files).encode()).hexdigest() for files in (base, least)
    )
    return {
        "base": Entry(WANTED["base"], "", base),
        "floor": Entry(WANTED["floor"], "", least),
        "builder": Entry(WANTED["builder"], on_base, (deb("c"),)),
        "node": Entry(("b",), on_floor, (deb("b"),)),
    }


def problems(tmp_path, locked, wanted=WANTED):
    path = tmp_path / "debian.lock"
    lock.write(path, locked)
    return check.debian_problems(path, wanted)


def test_a_lock_that_is_right(tmp_path):
    assert problems(tmp_path, entries()) == []
    check.prove([])


def changed(name="node", **fields):
    found = entries()
    return {**found, name: dataclasses.replace(found[name], **fields)}


@pytest.mark.parametrize(
    ("locked", "wanted", "sentence"),
    [
        ({}, WANTED, "set base is not locked"),
        (entries(), {"base": WANTED["base"]}, "set node is locked, and nothing wants it"),
        (entries(), {**WANTED, "node": ("b", "c")}, "was resolved for other names: c"),
        (changed(wanted=("c",)), WANTED, "was resolved for other names: b, c"),
        (changed(on="x"), WANTED, "set node was resolved on another floor"),
        (changed("builder", on="x"), WANTED, "set builder was resolved on another base"),
        (changed("floor", packages=(deb("d", "3"),)), WANTED, "node was resolved on another floor"),
        (changed("floor", on="x"), WANTED, "set floor was resolved on another base"),
        (changed("base", on="x"), WANTED, "set base was resolved on another base"),
        (
            changed("base", packages=(deb("a", "3"),)),
            WANTED,
            "builder was resolved on another base",
        ),
        (changed(packages=()), WANTED, "set node lacks b"),
        (changed(packages=(deb("b"), deb("b", "3"))), WANTED, "set node has b twice"),
        (
            changed(packages=(dataclasses.replace(deb("b"), sha256=SHA[:-1]),)),
            WANTED,
            "is no SHA-256",
        ),
        (changed(packages=(dataclasses.replace(deb("b"), size=0),)), WANTED, "0 is no size"),
        (
            changed(packages=(dataclasses.replace(deb("b"), version="4"),)),
            WANTED,
            "the file is called b_1%3a2-1_amd64.deb, expected b_4_amd64.deb",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, locked, wanted, sentence):
    found = problems(tmp_path, locked, wanted)
    assert any(sentence in problem for problem in found), found


def test_order_of_what_is_wanted(tmp_path):
    found = problems(tmp_path, changed("base", wanted=WANTED["base"][::-1]))
    assert "resolved for other names: their order" in found[0]


@pytest.mark.parametrize("check", [check.debian_problems, check.redhat_problems])
def test_what_is_no_lock(tmp_path, check):
    (tmp_path / "x.lock").write_text("[]")
    [problem] = check(tmp_path / "x.lock", {})
    assert "is not a lock" in problem


def test_rpms(tmp_path):
    path = tmp_path / "redhat.lock"
    lock.write(path, {"node-el9": Entry(("b",), "", (rpm("b"),))})
    assert check.redhat_problems(path, {"node-el9": ("b",)}) == []
    document = json.loads(path.read_text())
    document["node-el9"]["packages"][0]["release"] = "3"
    path.write_text(json.dumps(document))
    [problem] = check.redhat_problems(path, {"node-el9": ("b",)})
    assert "expected b-1-3.noarch.rpm" in problem


LOCKED = "# made\none-two==1.0 \\\n    --hash=sha256:" + SHA + "\n    # via x\n"


@pytest.mark.parametrize(
    ("source", "locked", "sentence"),
    [
        ("# why\none_two\n-c other.txt\n", LOCKED, ""),
        ("One.Two>=1\n", LOCKED, ""),
        ("one-two>1\n", LOCKED, "one-two 1.0 is not one-two>1"),
        ("three\n", LOCKED, "three is not locked (requirements.in:1)"),
        ("one-two\n", "one-two==1.0\n", "one-two is not pinned by version and hash"),
        ("one-two\n", LOCKED.replace("==1.0", ">=1.0"), "is not pinned by version and hash"),
        ("one two\n", LOCKED, "requirements.in:1: "),
    ],
)
def test_python_distributions(tmp_path, source, locked, sentence):
    (tmp_path / "requirements.in").write_text(source)
    (tmp_path / "requirements.txt").write_text(locked)
    paths = (tmp_path / "requirements.in", tmp_path / "requirements.txt")
    found = check.python_problems(*paths)
    assert any(sentence in problem for problem in found) if sentence else found == []


def test_wheels(tmp_path):
    path = tmp_path / "wheels.sha256"
    path.write_text(f"{SHA}  a-1-py3-none-any.whl\n{SHA}  A-2.tar.gz\n")
    assert check.wheel_problems(path) == [f"{path}: a is listed twice"]
    path.write_text("x\n")
    assert "not a SHA-256" in check.wheel_problems(path)[0]


def test_the_locks_of_the_checkout_are_right(root, tmp_path):
    settings = {"BUILD_ROOT": str(tmp_path / "build"), "CACHE_ROOT": str(tmp_path / "cache")}
    locks._check(context.load(root, settings))


def test_everything_is_told_at_once():
    with pytest.raises(LockError, match="2 lock entries do not match the pins") as caught:
        check.prove(["one", "two"])
    assert caught.value.details == "one\ntwo"
