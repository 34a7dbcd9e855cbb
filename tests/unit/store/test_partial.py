import errno
import hashlib
import os
import threading

import pytest

from buildchain.store import partial

NAME = "ab" * 32


@pytest.fixture(autouse=True)
def _small_units(monkeypatch):
    monkeypatch.setattr(partial, "UNIT", 100)


def write(folder, data: bytes, *, ordered: bool = False) -> None:
    """Write as a process would that is killed: without the last line of the journal."""
    with partial.opened(folder, NAME) as part:
        for at in range(0, len(data), 30):
            part.write(memoryview(data[at : at + 30]))
        if not ordered:
            part.note = lambda: None


def resumed(folder) -> tuple[int, str]:
    with partial.opened(folder, NAME) as part:
        return part.offset, part.hexdigest


DATA = bytes(range(256)) * 4


def test_goes_on_at_the_last_unit_after_a_kill(tmp_path):
    write(tmp_path, DATA[:450])
    assert (tmp_path / NAME).stat().st_size == 450
    # 30 at a time: units end at 120, 240, 360
    assert resumed(tmp_path) == (360, hashlib.sha256(DATA[:360]).hexdigest())
    assert (tmp_path / NAME).stat().st_size == 360


def test_goes_on_at_the_very_byte_when_it_ended_in_order(tmp_path):
    write(tmp_path, DATA[:450], ordered=True)
    assert resumed(tmp_path) == (450, hashlib.sha256(DATA[:450]).hexdigest())
    with partial.opened(tmp_path, NAME) as part:
        part.write(memoryview(DATA[450:]))
        assert part.hexdigest == hashlib.sha256(DATA).hexdigest()
        part.move(tmp_path / "store" / NAME)
    assert (tmp_path / "store" / NAME).read_bytes() == DATA
    assert (tmp_path / "store" / NAME).stat().st_mode & 0o777 == 0o644
    assert [p.name for p in tmp_path.iterdir()] == ["store"]


def test_room_is_claimed_and_is_not_taken_for_bytes(tmp_path):
    assert partial.claimed(tmp_path, NAME) == 0
    with partial.opened(tmp_path, NAME) as part:
        part.reserve(1 << 20)
        part.write(memoryview(DATA[:90]))
        part.note()
    assert (tmp_path / NAME).stat().st_size == 1 << 20
    assert partial.claimed(tmp_path, NAME) >= 1 << 20
    assert resumed(tmp_path) == (90, hashlib.sha256(DATA[:90]).hexdigest())
    assert (tmp_path / NAME).stat().st_size == 90


@pytest.mark.parametrize(("number", "told"), [("EOPNOTSUPP", False), ("ENOSPC", True)])
def test_room_that_cannot_be_claimed(tmp_path, monkeypatch, number, told):
    """Where a file system has no such thing it is done without; a full one is told of."""

    def refuse(*_):
        raise OSError(getattr(errno, number), "no")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with partial.opened(tmp_path, NAME) as part:
        if told:
            with pytest.raises(OSError, match="no"):
                part.reserve(10)
        else:
            part.reserve(10)


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        ("flip", 180),  # a byte of the third unit
        ("short", 270),  # the file ends within the fourth
        ("zeros", 90),  # power went: length is there, content is not
        ("empty", 0),
        ("torn", 270),  # journal: its last line is half there
        ("nonsense", 0),  # journal: not ours
        ("backwards", 90),  # journal: offsets that do not grow
        ("no journal", 0),
    ],
)
def test_what_the_journal_does_not_vouch_for_is_cut_off(tmp_path, damage, kept):
    write(tmp_path, DATA[:450])
    file, journal = tmp_path / NAME, tmp_path / f"{NAME}.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    if damage == "flip":
        file.write_bytes(DATA[:200] + b"!" + DATA[201:450])
    elif damage == "short":
        os.truncate(file, 300)
    elif damage == "zeros":
        file.write_bytes(DATA[:130] + bytes(320))
    elif damage == "empty":
        os.truncate(file, 0)
    elif damage == "torn":
        journal.write_bytes(b"".join(lines)[:-1])
    elif damage == "nonsense":
        journal.write_bytes(b"\xff\x00 \n" + b"".join(lines))
    elif damage == "backwards":
        journal.write_bytes(lines[0] + lines[0] + lines[1])
    else:
        journal.unlink()
    assert resumed(tmp_path) == (kept, hashlib.sha256(DATA[:kept]).hexdigest())
    write(tmp_path, DATA[kept:], ordered=True)
    assert resumed(tmp_path) == (len(DATA), hashlib.sha256(DATA).hexdigest())


def test_restart_and_discard(tmp_path):
    write(tmp_path, DATA, ordered=True)
    with partial.opened(tmp_path, NAME) as part:
        part.restart()
        assert part.offset == 0
        part.write(memoryview(b"other"))
        assert part.hexdigest == hashlib.sha256(b"other").hexdigest()
        part.discard()
    assert list(tmp_path.iterdir()) == []


def test_one_writer_at_a_time_and_the_next_gets_a_file_of_its_own(tmp_path):
    seen = []
    begun = threading.Event()

    def second() -> None:
        begun.set()
        with partial.opened(tmp_path, NAME) as part:
            seen.append(part.offset)
            part.discard()

    thread = threading.Thread(target=second)
    with partial.opened(tmp_path, NAME) as part:
        thread.start()
        begun.wait()
        thread.join(0.1)
        assert seen == []
        part.write(memoryview(DATA))
        part.move(tmp_path / "store" / NAME)
    thread.join()
    assert seen == [0], "what was moved into the store is nobody's partial"
    assert (tmp_path / "store" / NAME).read_bytes() == DATA
