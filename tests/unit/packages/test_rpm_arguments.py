"""Argument list of rpmbuild."""

import pytest

from buildchain.packages import rpm


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            rpm.argv_for_rpmbuild("-bs", "/spec/a.spec", {"_topdir": "/work", "a": "b c"}),
            ["rpmbuild", "-bs", "--nodeps", "--target", "x86_64", "--define", "_topdir /work",
             "--define", "a b c", "/spec/a.spec"],
        ),
    ],
)  # fmt: skip
def test_arguments(argv, expected):
    assert argv == expected
