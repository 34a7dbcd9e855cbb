import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core.errors import SigningError
from buildchain.signatures import wanted
from buildchain.signatures.wanted import Wanted

HEX = st.sampled_from("0123456789abcdef")
PRINTED = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1)
ANY = st.builds(
    Wanted,
    st.text(HEX, min_size=64, max_size=64),
    st.sampled_from(["detached", "armored", "clear"]),
    st.integers(0, 2**32 - 1),
    st.text(HEX, min_size=40, max_size=40).map(str.upper),
    PRINTED,
)


@given(ANY)
def test_a_line_is_read_as_written(one):
    assert wanted.parse(one.line) == one
    assert one.identity == f"{one.sha256}.{one.manner}"
    assert "/" not in one.identity


@pytest.mark.parametrize("line", [
    "", "x", f"{'0' * 64} detached 1 {'A' * 40}", f"{'0' * 64} inline 1 {'A' * 40} x",
    f"{'0' * 64} detached -1 {'A' * 40} x", f"{'0' * 64} detached 01 {'A' * 40} x",
    f"{'0' * 64} detached 1 {'a' * 40} x", f"{'0' * 64} detached 1 {'A' * 40} x\x1b[2J",
    f"../{'0' * 61} detached 1 {'A' * 40} x", f"{'0' * 64} detached 1 {'A' * 40} x\ny",
])  # fmt: skip
def test_any_other_line_is_refused(line):
    with pytest.raises(SigningError, match="asks for no signature"):
        wanted.parse(line)
