import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.machine import programs

NUMBERS = st.lists(st.integers(0, 300), min_size=2, max_size=4)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Docker version 20.10.24+dfsg1, build 297e128", (20, 10, 24)),
        ("skopeo version 1.9.3", (1, 9, 3)),
        ("gpg (GnuPG) 2.2.40\nlibgcrypt 1.10.1", (2, 2, 40)),
        ("nginx version: nginx/1.22.1", (1, 22, 1)),
        ("git version 2.39.5", (2, 39, 5)),
        ("no number", ()),
        ("", ()),
    ],
)
def test_parse_version(text, version):
    assert programs.parse_version(text) == version


@pytest.mark.parametrize(
    ("actual", "minimum", "older"),
    [
        ("x 17.3.1", "17.03", False),
        ("x 17.2", "17.03", True),
        ("x 0.10", "0.9", False),
        ("x 0.1.18", "0.1.19", True),
        ("x 2.2", "2.2", False),
        ("x 2.2.0", "2.2", False),
        ("unknown", "9.9", False),
        ("RPM version 4.18.0", "4.14", False),
    ],
)
def test_is_older(actual, minimum, older):
    assert programs.is_older(actual, minimum) is older


@given(NUMBERS, NUMBERS)
def test_comparison_is_that_of_numbers(left, right):
    def text(numbers):
        return ".".join(map(str, numbers))

    assert programs.is_older(f"v {text(left)} x", text(right)) is (left < right)
    assert programs.parse_version(f"tool {text(left)}") == tuple(left)


def test_arguments():
    assert programs.argv_for_refresh(["sudo"]) == ["sudo", "apt-get", "-q", "update"]
    assert programs.argv_for_installation([], ["a", "b"]) == [
        "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "-o", "Dpkg::Use-Pty=0",
        "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends", "--no-remove", "install",
        "--reinstall", "a", "b",
    ]  # fmt: skip


def test_states_of_packages():
    """A package may be there for several architectures; the one that is unfinished counts."""
    listing = "a\tinstalled\nb\thalf-configured\nb\tinstalled\nc\tinstalled\nc\tunpacked\nnoise\n"
    assert programs.parse_states(listing) == {
        "a": "installed", "b": "half-configured", "c": "unpacked",
    }  # fmt: skip
