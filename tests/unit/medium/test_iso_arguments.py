"""Argument list of mkisofs, and what it prints."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.medium import iso

ISO = ["mk", "-output", Path("/o"), "-R", "-J", "-joliet-long", "-l", "-V", "V 1", "-uid", "0",
       "-gid", "0", "-iso-level", "3", "-input-charset", "utf-8", "-output-charset",
       "utf-8"]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            iso.argv_for_iso("mk", Path("/r"), Path("/o"), volume_id="V 1", epoch=1700000000,
                             reproducible=True),
            [*ISO, "--set_all_file_dates", "2023111422132000",
             "--modification-date=2023111422132000", Path("/r"),
             "--", "-pacifier", "interval=0.1"],
        ),
        (
            iso.argv_for_iso("mk", Path("/r"), Path("/o"), volume_id="V 1", epoch=0,
                             reproducible=False),
            [*ISO, Path("/r")],
        ),
    ],
)  # fmt: skip
def test_arguments(argv, expected):
    assert argv == expected


@pytest.mark.parametrize(
    ("line", "percent"),
    [
        ("xorriso : UPDATE :  42.53% done", 42.53),
        (" 10.01% done, estimate finish Tue", 10.01),
        ("100% done", 100.0),
        ("Thank you for being patient for 3 seconds.", None),
        ("", None),
    ],
)
def test_progress(line, percent):
    assert iso.parse_progress(line) == percent


@given(st.floats(0, 100).map(lambda value: round(value, 2)), st.text(max_size=5))
def test_progress_of_any_percentage(value, noise):
    assert iso.parse_progress(f" {value:.2f}% done{noise}") == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xorriso 1.5.4 : RockRidge filesystem manipulator", True),
        ("GNU xorriso 1.5.4", True),
        ("genisoimage 1.1.11 (Linux)", False),
        ("mkisofs 3.02", False),
    ],
)
def test_is_reproducible(text, expected):
    assert iso.is_reproducible(text) is expected
