import sys

import pytest

from buildchain import __main__ as entry


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder in which doit is run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("body", "status"),
    [("pass", 0), ("return False", 1), ("raise ValueError", 2), ("raise KeyboardInterrupt", 130)],
)
def test_exit_status(folder, monkeypatch, capsys, body, status):
    (folder / "dodo.py").write_text(
        f"def act():\n    {body}\n\ndef task_x():\n    return {{'actions': [act]}}\n"
    )
    monkeypatch.setattr(sys, "argv", ["doit", "x"])
    monkeypatch.delitem(sys.modules, "dodo", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        assert entry.main() == status
    finally:
        sys.modules.pop("dodo", None)
    error = capsys.readouterr().err
    assert ("Interrupted; the same command goes on where it stopped." in error) is (status == 130)
