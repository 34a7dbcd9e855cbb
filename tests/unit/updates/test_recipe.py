"""Recipes and packs hold for any two images."""

import hashlib
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buildchain.updates import pack, recipe
from buildchain.updates.pack import HEAD, Listed, Manifest, Portion
from buildchain.updates.recipe import SECTOR, Copy, Piece

# Few different sectors: many are equal, and found at places where they do not belong.
KINDS = [bytes(SECTOR), *(hashlib.sha512(bytes([n])).digest() * 32 for n in range(5))]
SECTORS = st.lists(st.sampled_from(KINDS), max_size=40)
TAIL = st.integers(0, SECTOR - 1).map(lambda length: b"t" * length)
IMAGES = st.builds(lambda parts, tail: b"".join(parts) + tail, SECTORS, TAIL)
HELD = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def packed(folder, base, target, shortest, portion):
    """Write two images and what leads from one to the other; return the pack."""
    old, new, file = folder / "old", folder / "new", folder / "pack"
    old.write_bytes(base)
    new.write_bytes(target)
    found = recipe.copies(recipe.digests(old), recipe.digests(new), shortest)
    portions, data, at = [], b"", 0
    for pieces in recipe.portions(found, len(target), portion):
        literal = b""
        for piece in pieces:
            if piece.base is None:
                literal += target[at : at + piece.length]
            at += piece.length
        stored, form = pack.store(literal)
        data += stored
        portions.append(Portion(tuple(pieces), len(stored), form))
    digest = "0" * 64
    facts = {"name": "x.iso", "from": "1", "to": "2", "floor": "1", "base": digest,
             "target": digest, "data": digest, "base-size": len(base), "size": len(target),
             "portion": portion, "data-size": len(data)}  # fmt: skip
    content = Manifest(facts, (), tuple(portions)).text.encode()
    file.write_bytes(pack.head(content, b"signature") + content + b"signature" + data)
    return file


@HELD
@given(IMAGES, IMAGES, st.integers(1, 9), st.sampled_from([SECTOR, 3 * SECTOR, 64 * SECTOR]))
def test_round_trip(tmp_path, base, target, shortest, portion):
    file = packed(tmp_path, base, target, shortest, portion)
    rebuilt = list(pack.rebuild(tmp_path / "old", file))
    assert b"".join(rebuilt) == target
    assert all(len(part) == portion for part in rebuilt[:-1])
    content, signature, _ = pack.split(file)
    assert signature == b"signature"
    manifest = pack.parse(content)
    assert manifest.text.encode() == content


@given(SECTORS, SECTORS, st.integers(1, 9))
def test_finds(base, target, shortest):
    """They are true, in order, apart, and none that is long enough is overlooked altogether."""
    found = recipe.copies(base, target, shortest)
    at = 0
    for copy in found:
        assert copy.target >= at
        assert copy.count >= shortest
        assert target[copy.target : copy.end] == base[copy.base : copy.base + copy.count]
        at = copy.end
    if base == target and len(base) >= shortest:
        assert found == [Copy(0, 0, len(base))]
    left = Counter(target)
    for copy in found:
        left.subtract(target[copy.target : copy.end])
    if shortest == 1:
        assert not any(left[kind] for kind in base)


def test_zeros_do_not_cut_a_find_in_two():
    base = [b"a", b"0", b"b", b"c", b"0", b"d", b"e"]
    assert recipe.copies(base, [b"x", b"0", b"d", b"e"], 2) == [Copy(1, 4, 3)]


@given(st.binary(max_size=5000))
def test_what_is_stored(content):
    stored, form = pack.store(content)
    assert (stored, form) == pack.store(content)
    assert len(stored) <= len(content)
    assert form == "raw" or len(stored) <= len(content) * 15 / 16


DIGEST = "a" * 64
GOOD = Manifest(
    {
        "name": "x.iso", "from": "1", "to": "2", "floor": "1", "base": DIGEST, "target": DIGEST,
        "data": DIGEST, "base-size": 10, "size": 5000, "portion": 4096, "data-size": 1003,
    },
    (Listed("SHA256SUM", DIGEST, 3),),
    (Portion((Piece(1000), Piece(3096, 0)), 1000, "raw"), Portion((Piece(904, 2048),), 0, "raw")),
).text  # fmt: skip
assert pack.parse(GOOD.encode()).text == GOOD


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("#name=x.iso\n", "", "where #name= belongs"),
        ("#size=5000", "#size=0x13", "no number"),
        (f"#data={DIGEST}", "#data=aa", "says nothing"),
        ("F ", "F ../", "names no list"),
        ("SHA256SUM", "../SHA256SUM", "names no list"),
        ("P 1000 1000 raw", "P 1000 999 raw", "does not fit what follows"),
        ("P 1000 1000 raw", "P 999 1000 raw", "does not fit what follows"),
        ("P 1000 1000 raw", "P 1000 1000 zip", "is no portion"),
        ("B 0 3096", "B 0", "is no piece"),
        ("B 0 3096", "B 0 3095", "its portions are not those of the ISO"),
        ("#portion=4096", "#portion=0", "portions of no bytes"),
        ("#data-size=1003", "#data-size=1004", "its data is not what its lines say"),
        ("B 2048 904\n", "B 2048 904", "does not end with a line feed"),
        (GOOD[GOOD.index("#size") :], "", "ends within its facts"),
    ],
)
def test_what_is_no_manifest(old, new, words):
    assert old in GOOD
    with pytest.raises(ValueError, match=words):
        pack.parse(GOOD.replace(old, new, 1).encode())


@given(st.binary(max_size=200))
def test_what_is_no_pack(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("pack") / "pack"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="it does not begin as an update pack does"):
        pack.split(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (pack.head(b"1234", b"12"), "ends within its manifest"),
        (pack.head(b"1234", b"12").replace(b" 4 ", b" 99999999 ")[:HEAD], "does not begin"),
        (b"metalk8s-update 1 99999999 1".ljust(HEAD - 1) + b"\n", "too large"),
    ],
)
def test_what_is_half_a_pack(tmp_path, content, words):
    file = tmp_path / "pack"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=words):
        pack.split(file)
