from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.debian import apt
from buildchain.debian.apt import Entry
from buildchain.project.model import DebianFile

SHA = "ab" * 32
CONF = Path("/b/apt/x.conf")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            apt.argv_for_targets(),
            ["apt-get", "indextargets", "--format",
             "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)|$(TARGET_OF)",
             "Identifier: Packages"],
        ),
        (
            apt.argv_for_update(CONF),
            ["apt-get", "-c", CONF, "-q", "-o", "APT::Update::Error-Mode=any", "update"],
        ),
        (
            apt.argv_for_install(CONF, ["a", "b"], print_only=True),
            ["apt-get", "-c", CONF, "-q", "-y", "--print-uris", "install", "a", "b"],
        ),
        (
            apt.argv_for_install(CONF, ["a"], print_only=False),
            ["apt-get", "-c", CONF, "-q", "-y", "--download-only", "-o", "Dpkg::Use-Pty=0",
             "install", "a"],
        ),
        (
            apt.argv_for_source(CONF, "etcd=3.4-1"),
            ["apt-get", "-c", CONF, "-q", "source", "--download-only", "--only-source",
             "etcd=3.4-1"],
        ),
    ],
)  # fmt: skip
def test_arguments(argv, expected):
    assert argv == expected


def test_targets_of_other_archives_and_suites_are_ignored():
    text = """\
http://a/debian/|bookworm|main|Debian|deb
http://a/debian/|bookworm-updates|main|Debian|deb
http://a/debian/|bookworm|main|Debian|deb
http://a/debian-security/|bookworm-security|main|Debian|deb
http://a/debian/|bookworm|main|Debian|deb-src
http://a/debian/|trixie|main|Debian|deb
http://a/docker/|bookworm|stable|Docker|deb
W: some warning
"""
    assert apt.parse_targets(text, "bookworm") == (
        Entry("http://a/debian-security/", "bookworm-security", "main"),
        Entry("http://a/debian/", "bookworm", "main"),
        Entry("http://a/debian/", "bookworm-updates", "main"),
    )


def test_source_list():
    entries = [Entry("http://a/", "s", "main"), Entry("http://b/", "s-security", "main")]
    assert (
        apt.source_list(entries, Path("/k.gpg"), "amd64")
        == """\
Types: deb deb-src
URIs: http://a/
Suites: s
Components: main
Architectures: amd64
Signed-By: /k.gpg

Types: deb deb-src
URIs: http://b/
Suites: s-security
Components: main
Architectures: amd64
Signed-By: /k.gpg
"""
    )


def test_configuration_names_the_private_state():
    text = apt.configuration(Path("/b/apt"), Path("/b/status"), Path("/b/archives"))
    for line in (
        'Dir::State::status "/b/status";',
        'Dir::Cache::archives "/b/archives";',
        'Dir::Etc::sourcelist "/b/apt/debian.sources";',
        'Dir::Etc::sourceparts "/dev/null";',
        'APT::Install-Recommends "false";',
    ):
        assert line in text
    assert all(line.endswith(";") for line in text.splitlines())


def test_uris_of_a_real_run():
    text = f"""\
Reading package lists...
Building dependency tree...
The following NEW packages will be installed:
  libc6 mount
'http://deb/pool/main/u/mount_2.38.1-5+deb12u3_amd64.deb' mount_2.38.1-5+deb12u3_amd64.deb 134964 \
SHA256:{SHA}
'http://deb/pool/main/g/libc6_2.36-9_amd64.deb' libc6_1%3a2.36-9_amd64.deb 2757044 SHA256:{SHA}
'http://deb/pool/main/g/x.tar.gz' x.tar.gz 1 SHA256:{SHA}
'http://deb/pool/main/g/old_1_all.deb' old_1_all.deb 1 MD5Sum:00
"""
    assert apt.parse_uris(text) == (
        DebianFile("libc6", "1:2.36-9", "amd64", "libc6_1%3a2.36-9_amd64.deb", 2757044, SHA),
        DebianFile(
            "mount",
            "2.38.1-5+deb12u3",
            "amd64",
            "mount_2.38.1-5+deb12u3_amd64.deb",
            134964,
            SHA,
        ),
    )


NAME = st.from_regex(r"[a-z0-9][a-z0-9+.-]{1,20}", fullmatch=True)
# Debian policy 5.6.12: [epoch:]upstream[-revision]; no underscore anywhere.
VERSION = st.from_regex(r"([0-9]:)?[0-9][A-Za-z0-9.+~-]{0,15}", fullmatch=True)


@given(
    st.lists(
        st.tuples(NAME, VERSION, st.sampled_from(["amd64", "all"]), st.integers(0, 10**10)),
        max_size=5,
        unique_by=lambda row: (row[0], row[1]),
    )
)
def test_uri_lines_round_trip(rows):
    lines, expected = [], []
    for name, version, architecture, size in rows:
        file = f"{name}_{version.replace(':', '%3a')}_{architecture}.deb"
        lines.append(f"'http://deb/pool/{file}' {file} {size} SHA256:{SHA}")
        expected.append(DebianFile(name, version, architecture, file, size, SHA))
    found = apt.parse_uris("\n".join(["Reading…", *lines, ""]))
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert list(found) == sorted(found, key=lambda f: (f.name, f.version))


@given(st.text())
def test_no_text_breaks_the_parsers(text):
    assert isinstance(apt.parse_uris(text), tuple)
    assert isinstance(apt.parse_targets(text, "bookworm"), tuple)


def test_suites_of_a_source_list():
    entries = [apt.Entry("http://deb/", suite, "main") for suite in ("x", "x-updates", "x")]
    text = apt.source_list(entries, Path("/key.gpg"), "amd64")
    assert apt.parse_suites(text) == ("x", "x-updates")
    assert apt.parse_suites("") == ()
