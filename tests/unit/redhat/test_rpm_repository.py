"""Argument list of createrepo_c."""

from pathlib import Path

import pytest

from buildchain.redhat.rpm_repository import argv_for_createrepo


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            argv_for_createrepo(Path("/f"), epoch=5),
            ["createrepo_c", "--quiet", "--no-database", "--checksum=sha256", "--workers=1",
             "--revision=5", "--set-timestamp-to-revision", Path("/f")],
        ),
    ],
)  # fmt: skip
def test_arguments(argv, expected):
    assert argv == expected
