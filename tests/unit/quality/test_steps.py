import sys

from buildchain.project import context
from buildchain.quality import steps as quality


def test_the_soak_runs_what_is_marked_wherever_it_is(root, tmp_path, fake_program, monkeypatch):
    """A mark in a ring that the soak does not look at would be a test that nobody runs."""
    monkeypatch.setattr(sys, "executable", str(fake_program("python")))
    folders = {"BUILD_ROOT": str(tmp_path / "build"), "CACHE_ROOT": str(tmp_path / "cache")}
    quality._soak(context.load(root, folders))
    runs = [argv for argv in fake_program.calls("python") if "pytest" in argv]
    assert any("--cov-fail-under=85" in argv for argv in runs)
    chosen = [argv for argv in runs if "-m" in argv[2:]]
    looked_at = {argv[-1] for argv in chosen if "soak" in argv[argv.index("-m", 2) + 1]}
    marked = {
        "/".join(path.relative_to(root).parts[:2])
        for path in (root / "tests").rglob("test_*.py")
        if "mark.soak" in path.read_text(encoding="utf-8")
    } - {"tests/e2e"}  # all of it is run
    assert marked
    assert marked <= looked_at
    reports = " ".join(word for argv in runs for word in argv if word.startswith("--junitxml"))
    programs = {
        path.relative_to(root).parts[1]
        for path in (root / "operators").rglob("test_*.py")
        if "mark.soak" in path.read_text(encoding="utf-8")
    }
    assert programs
    assert all(f"/{name}-soak.xml" in reports for name in programs)
