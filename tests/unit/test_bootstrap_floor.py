"""The newest version that was installed on a machine."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metalk8s_bootstrap import floor

from tests.unit import bootstrap

VERSIONS = st.builds(
    lambda numbers, suffix: ".".join(map(str, numbers)) + suffix,
    st.tuples(*[st.integers(0, 12)] * 3),
    st.sampled_from(["", "-dev", "-rc1", "-rc2", "-rc10", "-alpha", "-beta3"]),
)


@given(VERSIONS, VERSIONS)
def test_versions_compare_as_in_the_shell(one, other):
    """verify.sh and bootstrap.sh sort by ``sort -V``, with a tilde for the dash."""
    text = f"{one}\n{other}\n".replace("-", "~")
    argv = ["sort", "-V"]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=True)
    newest = done.stdout.split()[-1].replace("~", "-")
    assert max(one, other, key=floor.order) == newest


@pytest.mark.parametrize(
    ("before", "version", "after"),
    [
        (None, "2.4.0-dev", "2.4.0-dev"),
        ("2.4.0-dev", "2.4.0", "2.4.0"),
        ("2.10.0", "2.9.0", "2.10.0"),
        ("2.4.0", "2.4.0-dev", "2.4.0"),
    ],
)
def test_the_newest_is_remembered(tmp_path, on_machine, before, version, after):
    if before:
        (on_machine.path(floor.FLOOR)).parent.mkdir(parents=True)
        on_machine.path(floor.FLOOR).write_text(f"{before}\n")
    floor.remember(on_machine, version)
    assert on_machine.path(floor.FLOOR).read_text() == f"{after}\n"


@pytest.fixture
def on_machine(tmp_path):
    import io

    from metalk8s_bootstrap import progress, system

    fake = bootstrap.make(tmp_path / "machine")
    with system.locked(tmp_path / "lock", 0) as lock, progress.opened(tmp_path / "log") as log:
        yield system.System(fake.root, progress.Progress(log, 1, screen=io.StringIO()), lock)
