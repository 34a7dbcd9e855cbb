"""Versions of Debian packages sort as dpkg sorts them."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.debian import version as debian_version

ASCENDING = (
    "0~1",
    "0",
    "0.9~rc1-1",
    "0.9~rc1-1+b1",
    "0.9-1",
    "1.0",
    "1.0a",
    "1.0+dfsg-1",
    "1.9.1",
    "1.10~beta",
    "1.10-1~bpo12+1",
    "1.10-1+deb12u2",
    "1.10-1+deb12u10",
    "1:0.1-1",
)
RUN = st.text("0123456789", min_size=1, max_size=3)
UPSTREAM = st.builds(lambda first, rest: first + rest, RUN, st.text("019az.+~", max_size=6))
VERSION = st.builds(
    lambda epoch, upstream, revision: epoch + upstream + revision,
    st.sampled_from(("", "0:", "1:")),
    UPSTREAM,
    st.one_of(st.just(""), st.text("019az.+~", min_size=1, max_size=5).map("-{}".format)),
)


def test_order():
    assert sorted(set(ASCENDING), key=debian_version.key) == list(ASCENDING)


@pytest.mark.parametrize(("one", "other"), [("1.0", "0:1.0-0"), ("1.0-1", "1.0-01"), ("1a", "1a0")])
def test_equal(one, other):
    assert debian_version.key(one) == debian_version.key(other)


@pytest.mark.parametrize(
    ("version", "authors"),
    [
        ("1.6.20~ds1-1+deb12u3", "1.6.20"),
        ("1:2.2.7-1+b2", "2.2.7"),
        ("1.20.5+really1.20.2-1.1+deb12u1", "1.20.2"),
        ("1.1.1+ds1-3", "1.1.1"),
        ("0.7.0+dfsg-1", "0.7.0"),
        ("3.1.6", "3.1.6"),
    ],
)
def test_version_of_the_authors(version, authors):
    assert debian_version.upstream(version) == authors


@given(one=VERSION, other=VERSION)
def test_dpkg_agrees(require, one, other):
    dpkg = require("dpkg")
    keys = debian_version.key(one), debian_version.key(other)
    for sign, holds in (("lt", keys[0] < keys[1]), ("eq", keys[0] == keys[1])):
        argv = [dpkg, "--compare-versions", one, sign, other]
        assert (subprocess.run(argv, check=False, capture_output=True).returncode == 0) is holds
