import json
import os
from pathlib import Path

import pytest

from buildchain.core.state import WholeJsonDB


@pytest.fixture
def database(tmp_path):
    from doit.dependency import JSONCodec

    return WholeJsonDB(str(tmp_path / "new" / ".doit.json"), JSONCodec())


def test_dump_is_whole(database, tmp_path):
    database.set("task", "key", "value")
    database.dump()
    folder = tmp_path / "new"
    assert json.loads((folder / ".doit.json").read_text()) == {"task": {"key": "value"}}
    assert [p.name for p in folder.iterdir()] == [".doit.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_keeps_what_was_saved(database, tmp_path, recorded):
    database.set("task", "key", "value")
    database.dump()
    folder = tmp_path / "new"
    (folder / f".doit.json.{os.getpid()}.part").symlink_to("/dev/full")
    database.set("task", "key", "other")
    database.dump()
    assert json.loads((folder / ".doit.json").read_text()) == {"task": {"key": "value"}}
    assert recorded.notes == [f"cannot save {folder / '.doit.json'}: No space left on device"]
    assert [p.name for p in folder.iterdir()] == [".doit.json"]
