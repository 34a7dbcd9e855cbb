"""``apply-update.sh``: what it refuses, and what it says then; nothing is written by it."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from buildchain.core.layout import Layout
from buildchain.signatures import signing
from buildchain.updates import pack
from tests.unit.updates.world import AFTER, BEFORE, EPOCH, NEW, OLD, PORTION, Site

USAGE, BAD_SIGNATURE, UNKNOWN_KEY, CHANGED, TOO_OLD, ANOTHER = 1, 10, 11, 12, 15, 16


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Arguments and what is wrong; ``{folder}`` is where everything is.

    :param words: what is said.
    :param more: arguments besides the usual ones.
    :param all: arguments instead of the usual ones.
    """

    words: str
    status: int = USAGE
    more: tuple[str, ...] = ()
    all: tuple[str, ...] | None = None
    prepare: Callable[[Site], object] = lambda site: None


def changed(at: int, content: bytes = b"\0\1") -> Callable[[Site], object]:
    """Write something to a pack; a negative place is from its end."""

    def prepare(site: Site) -> None:
        found = bytearray(site.pack.read_bytes())
        start = at % len(found)
        found[start : start + len(content)] = content
        site.pack.write_bytes(found)

    return prepare


def data_at(site: Site) -> int:
    return pack.split(site.pack)[2]


def cut(site: Site) -> None:
    site.pack.write_bytes(site.pack.read_bytes()[:-1])


def longer(site: Site) -> None:
    site.pack.write_bytes(site.pack.read_bytes() + b"x")


def signed_again(old: str, new: str) -> Callable[[Site], object]:
    """Let who makes packs sign another manifest."""

    def prepare(site: Site) -> None:
        content, _, at = pack.split(site.pack)
        data = site.pack.read_bytes()[at:]
        text = content.decode()
        assert old in text
        write(site, text.replace(old, new, 1).encode(), data)

    return prepare


def write(site: Site, content: bytes, data: bytes) -> None:
    file = site.folder / "signed"
    file.write_text(pack.signed_text(content))
    signature = site.world.signer.sign(file, site.folder / "signed.sig", epoch=EPOCH).read_bytes()
    site.pack.write_bytes(pack.head(content, signature) + content + signature + data)


def stranger(site: Site) -> None:
    folder = site.folder / "stranger"
    with signing.signer(Layout(folder, folder / "build", folder / "cache", "demo"), "") as signer:
        signer.export(folder, "stranger")


def back(site: Site) -> None:
    """A pack that leads back, which who makes packs allows."""
    name = "back.update"
    if not (site.world.folder / name).exists():
        site.world.make(name, site.world.new, site.world.old, floor=OLD)
    shutil.copy(site.world.folder / name, site.pack)
    site.base.write_bytes(AFTER)


def base(content: bytes) -> Callable[[Site], object]:
    return lambda site: site.base.write_bytes(content)


def there(name: str, content: bytes = b"of another") -> Callable[[Site], object]:
    def prepare(site: Site) -> None:
        site.output.mkdir(exist_ok=True)
        (site.output / name).write_bytes(content)

    return prepare


def linked(site: Site) -> None:
    site.output.mkdir()
    (site.output / f"{site.result.name}.part").symlink_to(site.base)


def same_file(site: Site) -> None:
    site.output.mkdir()
    site.base.rename(site.result)
    site.base.symlink_to(site.result)


def program(name: str, text: str) -> Callable[[Site], object]:
    def prepare(site: Site) -> None:
        file = site.folder / "bin" / name
        file.parent.mkdir()
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    return prepare


KEY = ("--key", "{key}")
FROM = ("--from", "{folder}/here.iso")
PACK, OUT = "{folder}/demo.update", "{folder}/out"
BIT = bytes([BEFORE[-1] ^ 1])
REFUSALS = {
    "no key": Refusal("no key: give the public key", all=(*FROM, PACK, OUT)),
    "no base": Refusal("say which ISO the pack starts from", all=(*KEY, PACK, OUT)),
    "no output": Refusal("say which pack, and to which folder", all=(*KEY, *FROM, PACK)),
    "two outputs": Refusal("one pack makes one ISO", more=("{folder}/more", "{folder}/x")),
    "no option": Refusal("--in-place is no option", more=("--in-place",)),
    "no value": Refusal("--key needs a value", all=("--key",)),
    "no pack": Refusal(
        "nowhere: is no file that can be read", all=(*KEY, *FROM, "{folder}/nowhere", OUT)
    ),
    "something else": Refusal("is no update pack", all=(*KEY, *FROM, "{folder}/here.iso", OUT)),
    "of a later kind": Refusal(
        "of a kind that this script does not know", prepare=changed(16, b"2")
    ),
    "odd head": Refusal("its head", CHANGED, prepare=changed(18, b"x")),
    "changed manifest": Refusal("is bad: it was changed", BAD_SIGNATURE, prepare=changed(100)),
    "stranger's key": Refusal(
        "not signed by the keys given", UNKNOWN_KEY, prepare=stranger,
        all=("--key", "{folder}/stranger/stranger.gpg", *FROM, PACK, OUT),
    ),
    "too few": Refusal("by fewer than 2 of them", UNKNOWN_KEY, ("--signatures", "2")),
    "no such key": Refusal(
        "cannot be checked: --key nowhere", all=("--key", "nowhere", *FROM, PACK, OUT)
    ),
    "cut": Refusal("is cut or too long", CHANGED, prepare=cut),
    "longer": Refusal("is cut or too long", CHANGED, prepare=longer),
    "changed data": Refusal("its data is not what was signed", CHANGED, prepare=changed(-5)),
    "changed list": Refusal(
        "its data is not what was signed", CHANGED,
        prepare=lambda site: changed(data_at(site) + 3)(site),
    ),
    "leads back": Refusal(f"leads back from {NEW} to {OLD}", TOO_OLD, prepare=back),
    "below its floor": Refusal(
        f"leads to {NEW}, below its own floor, 2.9.2", TOO_OLD,
        prepare=signed_again(f"#floor={OLD}", "#floor=2.9.2"),
    ),
    "back below its floor": Refusal(
        "below its own floor, 2.8.0", TOO_OLD, ("--allow-older",),
        prepare=signed_again(f"#to={NEW}\n#floor={OLD}", "#to=2.8.0-rc.1\n#floor=2.8.0"),
    ),
    "older than asked for": Refusal("older than 2.9.2", TOO_OLD, ("--at-least", "2.9.2")),
    "odd number": Refusal("is no number", prepare=signed_again("#size=", "#size=x")),
    "odd name": Refusal(
        "which is no name of a file", prepare=signed_again("#name=demo", "#name=../demo")
    ),
    "odd line": Refusal(
        "says nothing that this script understands", prepare=signed_again("\nP ", "\nQ ")
    ),
    "odd list": Refusal(
        "brings a file that no ISO has beside it", prepare=signed_again(" SHA256SUM\n", " sh\n")
    ),
    "another list": Refusal(
        "brings no list of the blocks",
        prepare=signed_again(f"#portion={PORTION}", "#portion=32768"),
    ),
    "base is missing": Refusal("no such file", all=(*KEY, "--from", "nowhere", PACK, OUT)),
    "base is a folder": Refusal(
        "is a folder where no ISO is mounted", all=(*KEY, "--from", "{folder}", PACK, OUT)
    ),
    "another base": Refusal(
        f"is another ISO than {PACK} starts from: it is 'Demo {NEW}', wanted version {OLD}",
        ANOTHER, prepare=base(AFTER),
    ),
    "damaged base": Refusal(
        "verify.sh --repair", ANOTHER, prepare=base(BEFORE[:-1] + BIT)
    ),
    "longer base": Refusal("is another ISO", ANOTHER, prepare=base(BEFORE + b"x")),
    "shorter base": Refusal("is another ISO", ANOTHER, prepare=base(BEFORE[:-1])),
    "no folder": Refusal(
        "no such folder, or it cannot be written to", all=(*KEY, *FROM, PACK, "{folder}/a/b")
    ),
    "a file": Refusal(
        "neither a folder nor a device", all=(*KEY, *FROM, PACK, "{folder}/here.iso")
    ),
    "lists of another ISO": Refusal("SHA256SUM is of another ISO", prepare=there("SHA256SUM")),
    "another ISO": Refusal("is another ISO: name", prepare=there(f"demo-{NEW}.iso")),
    "linked": Refusal("is a symbolic link", prepare=linked),
    "onto itself": Refusal("holds the ISO that --from names", prepare=same_file),
    "no space": Refusal(
        "no space in", prepare=program("df", "echo title; echo device 100 90 10 90% /")
    ),
}  # fmt: skip


def state(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_refusal(site, world, refusal):
    refusal.prepare(site)
    before = state(site.folder)
    places = {"folder": site.folder, "key": world.key}
    environment = {**os.environ, "PATH": f"{site.folder}/bin:{os.environ['PATH']}"}
    words = [word.format(**places) for word in refusal.all or refusal.more]
    run = site.run if refusal.all is None else site.call
    status, said = run(*words, environment=environment)
    assert (status, refusal.words.format(**places) in said) == (refusal.status, True), said
    errors = [line for line in said.splitlines() if line.startswith("apply-update.sh: ")]
    assert len(errors) == 1, "one clear error"
    assert state(site.folder) == before, "nothing is written"


def test_back_when_both_want_it(site):
    """Who makes packs by the floor, and who applies it by an option."""
    back(site)
    assert site.run("--allow-older")[0] == 0
    assert (site.output / f"demo-{OLD}.iso").read_bytes() == BEFORE


def test_two_at_once(site):
    """The second one is told, the first one goes on."""
    site.output.mkdir()
    part = site.output / f"{site.result.name}.part"
    with part.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        status, said = site.run()
        assert (status, "another run writes" in said) == (USAGE, True)
    assert site.run()[0] == 0


@pytest.mark.parametrize(
    "lie",
    [
        "dd if=/dev/urandom of=here.iso bs=4096 count=999 conv=notrunc",
        "dd if=/dev/urandom of=demo.update bs=2048 seek=9 count=40 conv=notrunc",
    ],
)
def test_what_changes_after_it_was_verified(site, lie):
    """What was written is compared, so nothing else gets the name of the ISO."""
    program("flock", f"cd {site.folder} && {lie} 2>/dev/null")(site)
    environment = {**os.environ, "PATH": f"{site.folder}/bin:{os.environ['PATH']}"}
    status, said = site.run(environment=environment)
    assert status == CHANGED, said
    assert not site.result.exists()


FAILING_DD = """\
case "$*" in
*of=/dev/fd/4*)
    echo >>{folder}/writes
    [ "$(wc -l <{folder}/writes)" -lt {call} ] ||
        {{ echo "dd: error writing '/dev/fd/4': No space left on device" >&2; exit 1; }} ;;
esac
exec {dd} "$@"
"""


@pytest.mark.parametrize("call", [1, 4])
def test_full_disk(site, call):
    """What was written stays for the next run, and has no name."""
    fails = FAILING_DD.format(folder=site.folder, call=call, dd=shutil.which("dd"))
    program("dd", fails)(site)
    environment = {**os.environ, "PATH": f"{site.folder}/bin:{os.environ['PATH']}"}
    status, said = site.run(environment=environment)
    assert (status, "cannot be written: No space left on device" in said) == (USAGE, True), said
    assert not site.result.exists()
    assert site.run()[0] == 0
    assert site.result.read_bytes() == AFTER
