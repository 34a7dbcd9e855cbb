import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.debian import layers

EPOCH = 1700000000


def listing(path: Path) -> dict[str, tuple[str, int, object]]:
    """Return what is in a layer: name to type, date, and content or link target."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member).read() if member.isreg() else member.linkname
            found[member.name] = (member.type.decode(), member.mtime, content)
    return found


def write_tar(path: Path, entries: list[tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            member, data = entry if isinstance(entry, tuple) else (entry, b"")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def test_compress_is_gzip_named_by_its_hash(tmp_path):
    tar = tmp_path / "x.tar"
    tar.write_bytes(b"plain" * 1000)
    blob = layers.compress(tar, tmp_path / "out")
    packed = blob.path.read_bytes()
    assert gzip.decompress(packed) == tar.read_bytes()
    assert blob.path.name == blob.sha256 == hashlib.sha256(packed).hexdigest()
    assert blob.diff_id == hashlib.sha256(tar.read_bytes()).hexdigest()
    assert blob.size == len(packed)
    assert blob.path.stat().st_mode & 0o777 == 0o644
    assert packed[3:8] == b"\0\0\0\0\0", "neither name nor time in the header"
    assert [p.name for p in (tmp_path / "out").iterdir()] == [blob.sha256]


def test_last_word_wins_and_dates_are_set(tmp_path, make_tar):
    low = make_tar("low.tar", {"./etc": None, "etc/a": "old", "etc/b": "kept"}, mtime=5)
    high = make_tar("high.tar", {"/etc/a": "new"}, mtime=6)
    blob = layers.merge([low, high], tmp_path / "out", epoch=EPOCH)
    assert listing(blob.path) == {
        "etc": ("5", EPOCH, ""),
        "etc/a": ("0", EPOCH, b"new"),
        "etc/b": ("0", EPOCH, b"kept"),
    }


@pytest.mark.parametrize(
    ("low", "high", "left"),
    [
        (["d/a", "d/b"], ["d/.wh.a"], ["d/.wh.a", "d/b"]),
        (["d/a/x", "d/a/y", "d/b"], ["d/.wh.a"], ["d/.wh.a", "d/b"]),
        (["d/a", "d/b"], ["d/.wh..wh..opq", "d/c"], ["d/.wh..wh..opq", "d/c"]),
        (["ab"], [".wh.a"], [".wh.a", "ab"]),
        ([".wh.a"], ["a"], [".wh.a", "a"]),
    ],
)
def test_whiteouts_delete_what_lies_below_and_stay_for_the_base(
    tmp_path, make_tar, low, high, left
):
    tars = [
        make_tar("low.tar", dict.fromkeys(low, "x")),
        make_tar("high.tar", dict.fromkeys(high, "")),
    ]
    blob = layers.merge(tars, tmp_path / "out", epoch=EPOCH)
    assert sorted(listing(blob.path)) == sorted(left)


LEFTOVERS = ["debs/x.deb", "tmp/x", "run/lock", "root/.cache", "var/cache/apt/pkgcache.bin",
             "var/cache/debconf/config.dat", "var/cache/ldconfig/aux-cache", "var/lib/apt/lists/x",
             "var/lib/apt/extended_states", "var/log/dpkg.log", "var/lib/dpkg/status-old",
             "etc/passwd-", "etc/resolv.conf", "etc/hostname", "etc/.pwd.lock", "dev/null",
             "proc/1", "sys/x", ".dockerenv", "debs"]  # fmt: skip
KEPT = ["tmp", "run", "root", "var/log", "var/lib/dpkg/status", "var/cache/nginx/x", "etc/passwd",
        "usr/dev/x", "opt/tmp/x", "etc/hosts.allow", "dev"]  # fmt: skip


def test_leftovers_are_dropped_and_nothing_else(tmp_path, make_tar):
    tar = make_tar("x.tar", dict.fromkeys([*LEFTOVERS, *KEPT], "x"))
    blob = layers.merge([tar], tmp_path / "out", epoch=EPOCH)
    assert sorted(listing(blob.path)) == sorted(KEPT)


def test_owner_mode_links_and_extended_attributes_stay(tmp_path):
    file = tarfile.TarInfo("usr/bin/ping")
    file.mode, file.uid, file.gid = 0o4755, 12, 34
    file.uname = file.gname = "someone"
    file.pax_headers = {"SCHILY.xattr.security.capability": "cap", "atime": "123.5"}
    hard = tarfile.TarInfo("a-link")
    hard.type, hard.linkname = tarfile.LNKTYPE, "./usr/bin/ping"
    soft = tarfile.TarInfo("b-link")
    soft.type, soft.linkname = tarfile.SYMTYPE, "../x"
    tar = write_tar(tmp_path / "x.tar", [(file, b"elf"), hard, soft])
    blob = layers.merge([tar], tmp_path / "out", epoch=EPOCH)
    with tarfile.open(blob.path) as archive:
        members = archive.getmembers()
    assert [m.name for m in members] == ["b-link", "usr/bin/ping", "a-link"], "links come last"
    ping = members[1]
    assert (ping.mode, ping.uid, ping.gid, ping.uname) == (0o4755, 12, 34, "")
    assert ping.pax_headers == {"SCHILY.xattr.security.capability": "cap"}
    assert members[2].linkname == "usr/bin/ping"
    assert members[0].linkname == "../x"


def test_whiteouts_come_before_what_takes_the_place(tmp_path, make_tar):
    tars = [make_tar("low.tar", {"etc/.wh..a": ""}), make_tar("high.tar", {"etc/.a": "new"})]
    blob = layers.merge(tars, tmp_path / "out", epoch=EPOCH)
    assert list(listing(blob.path)) == ["etc/.wh..a", "etc/.a"]


def test_a_file_in_place_of_a_folder_hides_what_was_in_it(tmp_path, make_tar):
    tars = [make_tar("low.tar", {"d": None, "d/x": "x"}), make_tar("high.tar", {"d": "file"})]
    blob = layers.merge(tars, tmp_path / "out", epoch=EPOCH)
    assert list(listing(blob.path)) == ["d"]


@pytest.mark.parametrize("above", ["a", ".wh.a"])
def test_a_hard_link_outlives_its_target(tmp_path, make_tar, above):
    link = tarfile.TarInfo("b")
    link.type, link.linkname = tarfile.LNKTYPE, "a"
    low = write_tar(tmp_path / "low.tar", [(tarfile.TarInfo("a"), b"old"), link])
    high = make_tar("high.tar", {above: "new"})
    blob = layers.merge([low, high], tmp_path / "out", epoch=EPOCH)
    assert listing(blob.path)["b"] == ("0", EPOCH, b"old")


def test_no_layers_give_an_empty_one(tmp_path):
    blob = layers.merge([], tmp_path / "out", epoch=EPOCH)
    assert listing(blob.path) == {}


NAMES = st.sampled_from(
    ["a", "b", "a/x", "a/y", "b/x/y", "c", "a/.wh.x", ".wh.c", "b/.wh..wh..opq"]
)


def is_possible(layer: dict[str, bytes]) -> bool:
    """Tell whether no name is both a file and a folder, as in any real file system."""
    return not any(other.startswith(f"{name}/") for name in layer for other in layer)


LAYER = st.dictionaries(NAMES, st.binary(max_size=5), max_size=6).filter(is_possible)


@given(st.lists(LAYER, max_size=3), st.randoms(use_true_random=False))
def test_bytes_depend_on_content_alone(tmp_path_factory, stack, random):
    """Neither dates, owners' names nor the order in an archive reach the result."""
    folder = tmp_path_factory.mktemp("layers")
    digests = set()
    for attempt in range(2):
        tars = []
        for number, layer in enumerate(stack):
            entries = []
            # Whiteouts come first in real layers (the opaque one above all), the rest in any order.
            names = list(layer)
            random.shuffle(names)
            names.sort(key=lambda name: ".wh." not in name)
            for name in names:
                member = tarfile.TarInfo(name)
                member.mtime = random.randrange(2**31)
                member.uname = random.choice(["root", "", "x"])
                entries.append((member, b"" if ".wh." in name else layer[name]))
            tars.append(write_tar(folder / f"{attempt}-{number}.tar", entries))
        digests.add(layers.merge(tars, folder / str(attempt), epoch=EPOCH).sha256)
    assert len(digests) == 1


@given(st.lists(LAYER, min_size=1, max_size=3))
def test_merge_agrees_with_a_simple_model(tmp_path_factory, stack):
    folder = tmp_path_factory.mktemp("layers")
    expected: dict[str, bytes] = {}
    tars = []
    for number, layer in enumerate(stack):
        names = sorted(layer, key=lambda name: ".wh." not in name)
        for name in names:
            parent, _, base = name.rpartition("/")
            if base == ".wh..wh..opq":
                gone = parent + "/"
                expected = {n: c for n, c in expected.items() if not n.startswith(gone)}
            elif base.startswith(".wh."):
                victim = f"{parent}/{base[4:]}".lstrip("/")
                expected = {
                    n: c for n, c in expected.items()
                    if n != victim and not n.startswith(victim + "/")
                }  # fmt: skip
            else:
                expected = {n: c for n, c in expected.items() if not n.startswith(f"{name}/")}
            expected[name] = b"" if ".wh." in name else layer[name]
        entries = [
            (tarfile.TarInfo(name), b"" if ".wh." in name else layer[name]) for name in names
        ]
        tars.append(write_tar(folder / f"{number}.tar", entries))
    blob = layers.merge(tars, folder / "out", epoch=EPOCH)
    found = {name: content for name, (_, _, content) in listing(blob.path).items()}
    assert found == expected
