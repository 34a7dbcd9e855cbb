"""``verify.sh --repair``: what it refuses, and what it says then; nothing is written by it."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable

import pytest

from tests.unit import repairs
from tests.unit.repairs import BLOCK, Copies, Damage, Home, require_root

USAGE, BAD_SIGNATURE, UNKNOWN_KEY, CHANGED, TOO_OLD = 1, 10, 11, 12, 15
WHOLE = repairs.WHOLE
BAD = Damage("zeros", 5 * BLOCK, 3 * BLOCK).do(WHOLE)
# Does something at some call of a program, then what the program does.
BEFORE = """\
#!/bin/sh
echo >>{state}/{name}.calls
if [ "$(wc -l <{state}/{name}.calls)" -eq {call} ]; then
    (cd {folder} && {lie}) 2>/dev/null
fi
exec {program} "$@"
"""


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Arguments and what is wrong; ``{folder}`` is where the copies are.

    :param lists: the list is beside the ISO, unless it is given by name.
    """

    words: str
    status: int = USAGE
    arguments: tuple[str, ...] = ("--repair", "--from", "{folder}/other.iso", "{folder}/demo.iso")
    prepare: Callable[[Copies], object] = lambda copy: None


def beside(copy: Copies) -> None:
    for suffix in ("", ".sig"):
        shutil.copy(f"{copy.blocks}{suffix}", f"{copy.target}.blocks{suffix}")


def other_key(copy: Copies) -> None:
    folder = copy.folder / "stranger"
    folder.mkdir()
    stranger = Home(folder)
    stranger.sign(copy.folder / "demo.iso.blocks")
    stranger.close()


def signed_text(text: str) -> Callable[[Copies], None]:
    def prepare(copy: Copies) -> None:
        blocks = copy.folder / "demo.iso.blocks"
        blocks.write_text(text)
        copy.home.sign(blocks)

    return prepare


def edited(copy: Copies) -> None:
    blocks = copy.folder / "demo.iso.blocks"
    blocks.write_text(blocks.read_text().replace("B ", "B 0", 1))


def fewer(copy: Copies) -> None:
    blocks = copy.folder / "demo.iso.blocks"
    blocks.write_text(blocks.read_text().rstrip("\n").rpartition("\n")[0] + "\n")
    copy.home.sign(blocks)


def older_target(copy: Copies) -> None:
    copy.target.write_bytes(repairs.image(3, "Demo 2.8.0"))


def same_damage(copy: Copies) -> None:
    copy.source.write_bytes(BAD)


def older_source(copy: Copies) -> None:
    copy.source.write_bytes(repairs.image(3, "Demo 2.8.0"))


def garbled_source(copy: Copies) -> None:
    copy.source.write_bytes(repairs.image(3, "Demo \33[2J\a2.8"))


def program(name: str, text: str) -> Callable[[Copies], None]:
    def prepare(copy: Copies) -> None:
        file = copy.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    return prepare


def device(copy: Copies) -> None:
    require_root()
    copy.target.unlink()
    os.mknod(copy.target, 0o60600, os.makedev(7, 200))
    program("findmnt", "echo /media/stick")(copy)


FULL = "No space left on device"
FAILING_DD = f"""case "$*" in
*of=/dev/fd/4*) echo "dd: error writing '/dev/fd/4': {FULL}" >&2; exit 1 ;;
esac
exec /usr/bin/dd "$@\""""
DEMO, OTHER, LIST = "{folder}/demo.iso", "{folder}/other.iso", "{folder}/demo.iso.blocks"
IN_USE = """case "$*" in
*backing_file*) echo /sys/block/loop7/loop/backing_file ;;
*) exec /usr/bin/grep "$@" ;;
esac"""
REFUSALS = {
    "no source": Refusal(
        "needs another copy of the ISO, --from SOURCE", arguments=("--repair", DEMO)
    ),
    "no medium": Refusal("say which ISO", arguments=("--repair", "--from", OTHER)),
    "no repair": Refusal("belong to --repair", arguments=("--from", OTHER, DEMO)),
    "no repair, dry": Refusal("belong to --repair", arguments=("--dry-run", DEMO)),
    "value": Refusal("--from needs a value", arguments=("--repair", DEMO, "--from")),
    "without a signature": Refusal(
        "needs a key",
        arguments=("--insecure-without-signature", "--repair", "--from", OTHER, DEMO),
    ),
    "a folder": Refusal(
        "is a folder: --repair is for", arguments=("--repair", "--from", OTHER, ".")
    ),
    "no file": Refusal(
        "is neither a file nor", arguments=("--repair", "--from", OTHER, "/dev/null")
    ),
    "itself": Refusal(
        "is the medium that is to be repaired", arguments=("--repair", "--from", DEMO, DEMO)
    ),
    "itself, by a link": Refusal(
        "is the medium that is to be repaired",
        arguments=("--repair", "--from", "{folder}/link", DEMO),
        prepare=lambda copy: (copy.folder / "link").symlink_to(copy.target),
    ),
    "twice": Refusal(
        "is given twice", arguments=("--repair", "--from", OTHER, "--from", OTHER, DEMO)
    ),
    "no such source": Refusal(
        "no such file or device", arguments=("--repair", "--from", "gone", DEMO)
    ),
    "no mount": Refusal(
        "is a folder where no ISO is mounted", arguments=("--repair", "--from", ".", DEMO)
    ),
    "no list": Refusal(
        "there is no list of the blocks of this ISO",
        UNKNOWN_KEY,
        prepare=lambda copy: (copy.folder / "demo.iso.blocks").unlink(),
    ),
    "no such list": Refusal(
        "--blocks gone: no such file",
        arguments=("--repair", "--blocks", "gone", "--from", OTHER, DEMO),
    ),
    "list not signed": Refusal(
        "is not signed",
        UNKNOWN_KEY,
        prepare=lambda copy: (copy.folder / "demo.iso.blocks.sig").unlink(),
    ),
    "list by another key": Refusal(
        "has 0 signatures by the keys given", UNKNOWN_KEY, prepare=other_key
    ),
    "list changed": Refusal("is not what was signed", BAD_SIGNATURE, prepare=edited),
    "list of nothing": Refusal("is no list of blocks", prepare=signed_text("")),
    "list of something": Refusal("is no list of blocks", prepare=signed_text("#size=9\nx\n")),
    "list with a block less": Refusal("is no list of blocks", prepare=fewer),
    "list too old": Refusal(
        "version 2.9.0, older than 2.9.1",
        TOO_OLD,
        arguments=("--at-least", "2.9.1", "--repair", "--from", OTHER, DEMO),
    ),
    "another version": Refusal("is another version, Demo 2.8.0; the list", prepare=older_target),
    "something else": Refusal(
        "has nothing of this ISO",
        prepare=lambda copy: copy.target.write_bytes(b"years of work\n" * 9999),
    ),
    "same damage": Refusal(
        "is damaged at the same places, or of another build", CHANGED, prepare=same_damage
    ),
    "same damage, and then": Refusal(
        "no source has what belongs there", CHANGED, prepare=same_damage
    ),
    "source of another version": Refusal(
        'is another version, "Demo 2.8.0", wanted "Demo 2.9.0"', CHANGED, prepare=older_source
    ),
    "source that writes to the terminal": Refusal(
        'is another version, "Demo [2J2.8"', CHANGED, prepare=garbled_source
    ),
    "in use": Refusal("is in use as /dev/loop7: unmount it first", prepare=program("grep", IN_USE)),
    "mounted": Refusal("is mounted at /media/stick: unmount it first", prepare=device),
    "no space": Refusal(
        "no space for {folder}/absent.iso.part: it needs ",
        arguments=("--repair", "--blocks", LIST, "--from", OTHER, "{folder}/absent.iso"),
        prepare=program("df", "printf 'x\\nx 1 1 0 1 x\\n'"),
    ),
    "no folder": Refusal(
        "no such folder", arguments=("--repair", "--from", OTHER, "gone/demo.iso", "--blocks", LIST)
    ),
    "disk full": Refusal(f"cannot be written: {FULL}", prepare=program("dd", FAILING_DD)),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_refusals(copies, refusal):
    copy = copies()
    copy.target.write_bytes(BAD)
    beside(copy)
    refusal.prepare(copy)
    is_file = copy.target.is_file()
    before = copy.target.read_bytes() if is_file else b""
    places = [word.format(folder=copy.folder) for word in refusal.arguments]
    environment = {**os.environ, "PATH": f"{copy.folder}/bin:{os.environ['PATH']}"}
    status, said = copy.repair(*places, plain=True, environment=environment)
    assert (status, refusal.words.format(folder=copy.folder) in said) == (refusal.status, True), (
        said
    )
    assert len([line for line in said.splitlines() if "verify.sh: " in line]) <= 2
    assert not is_file or copy.target.read_bytes() == before
    assert said.replace("\n", "").isprintable()
    assert not list(copy.scratch.iterdir())


def test_a_read_only_iso(copies):
    copy = copies()
    copy.target.write_bytes(BAD)
    copy.target.chmod(0o444)
    shell = ("dash",)
    if os.getuid() == 0:
        # Root writes to everything, unless it may not.
        shell = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", *shell)
    status, said = copy.repair(shell=shell)
    assert (status, "cannot be written to: it is read-only, or not yours" in said) == (
        USAGE,
        True,
    ), said
    assert copy.target.read_bytes() == BAD
    assert copy.repair("--dry-run", shell=shell)[0] == 0


def test_a_list_beside_the_source_will_do(copies):
    copy = copies()
    copy.target.write_bytes(BAD)
    copy.home.list_of(WHOLE, copy.folder / "other.iso.blocks")
    status, said = copy.repair("--repair", "--from", copy.source, copy.target, plain=True)
    assert (status, copy.target.read_bytes() == WHOLE) == (0, True), said


def test_an_empty_file_is_filled(copies):
    copy = copies()
    copy.target.write_bytes(b"")
    assert copy.repair()[0] == 0
    assert copy.target.read_bytes() == WHOLE


def test_the_folder_of_a_mount_is_its_device(copies):
    """What findmnt names is read, whole: sectors behind the files, too."""
    copy = copies()
    copy.target.write_bytes(BAD)
    (copy.folder / "mount").mkdir()
    program("findmnt", f"echo {copy.folder}/device")(copy)
    environment = {**os.environ, "PATH": f"{copy.folder}/bin:{os.environ['PATH']}"}
    arguments = ("--repair", "--blocks", copy.blocks, "--from", copy.folder / "mount", copy.target)
    status, said = copy.repair(*arguments, plain=True, environment=environment)
    assert (status, "where no ISO is mounted" in said) == (USAGE, True), "it is no device"
    require_root()
    # The disk in memory of no size: it is asked, and has nothing.
    os.mknod(copy.folder / "device", 0o60600, os.makedev(7, 200))
    status, said = copy.repair(*arguments, plain=True, environment=environment)
    assert (status, f"{copy.folder}/device has none of it" in said) == (CHANGED, True), said


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """Return a folder with an ISO that somebody has changed a little, and its list."""
    folder, content = tmp_path_factory.mktemp("evil"), Damage("garbage", 30 * BLOCK, 9).do(WHOLE)
    (folder / "evil.iso").write_bytes(content)
    stranger = Home(folder)
    stranger.list_of(content, folder / "evil.blocks")
    stranger.close()
    return folder


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("gpgv", 1),
        ("cat", 1),
        ("cat", 2),
        ("dd", 1),
        ("dd", 4),
        ("split", 1),
        ("split", 2),
        ("sed", 1),
    ],
)
@pytest.mark.parametrize(
    "lie",
    [
        "printf evil | dd of=other.iso bs=1 seek=10240 conv=notrunc",
        "cd {evil} && cp evil.iso $OLDPWD/other.iso && cp evil.blocks $OLDPWD/demo.iso.blocks && "
        "cp evil.blocks.sig $OLDPWD/demo.iso.blocks.sig",
        "mv demo.iso aside; ln -s victim demo.iso",
    ],
    ids=["source", "list", "target"],
)
def test_what_is_exchanged_meanwhile(copies, evil, name, call, lie):
    """A list is believed only when its signature was checked, and only what fits it is written."""
    copy = copies()
    copy.target.write_bytes(BAD)
    beside(copy)
    victim = copy.folder / "victim"
    victim.write_bytes(b"years of work\n" * 99)
    state = copy.folder / "bin"
    state.mkdir()
    real = {"name": name, "program": shutil.which(name), "call": call}
    (state / name).write_text(
        BEFORE.format(state=state, folder=copy.folder, lie=lie.format(evil=evil), **real)
    )
    (state / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{state}:{os.environ['PATH']}"}
    arguments = ("--repair", "--from", copy.source, copy.target)
    status, said = copy.repair(*arguments, plain=True, environment=environment)
    assert victim.read_bytes() == b"years of work\n" * 99
    aside = copy.folder / "aside"
    content = (aside if aside.exists() else copy.target).read_bytes()
    wanted, had = repairs.blocks(WHOLE), repairs.blocks(BAD)
    for number, found in enumerate(repairs.blocks(content)):
        assert found in (wanted[number], had[number]), said
    assert status != 0 or content == WHOLE
