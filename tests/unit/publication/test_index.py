import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core.errors import ConfigError
from buildchain.publication import index
from buildchain.publication.index import Artefact, Entry, Index

LIST = Artefact("SHA256SUM", "list", 10, "a" * 64)
ORDERED = [
    "1.9.9", "2.4.0-alpha", "2.4.0-alpha.1", "2.4.0-alpha.beta", "2.4.0-dev", "2.4.0-dev.2+gabc",
    "2.4.0-dev.10+gabc", "2.4.0-rc.1", "2.4.0", "2.4.0+g1", "2.4.1", "2.10.0", "10.0.0",
]  # fmt: skip


SIGNATURE = Artefact("SHA256SUM.sig", "signature", 10, "b" * 64)


def entry(version, *channels, bases=(), artefacts=(LIST, SIGNATURE)):
    return Entry(version, channels, 5, artefacts, bases)


def make(*entries):
    found = Index("demo", 3, 7)
    for each in entries:
        found = found.with_release(each)
    return found


@pytest.mark.parametrize("number", range(len(ORDERED) - 1))
def test_versions_are_in_the_order_of_semantic_versioning(number):
    assert index.order(ORDERED[number]) < index.order(ORDERED[number + 1])


numbers = st.integers(0, 30)
suffixes = st.lists(
    st.text("ab0129", min_size=1, max_size=3), max_size=3
).map(".".join)  # fmt: skip
versions = st.builds(
    lambda a, b, c, s: f"{a}.{b}.{c}" + (f"-{s}" if s else ""), numbers, numbers, numbers, suffixes
)


@given(st.lists(versions, min_size=1, max_size=8), st.data())
def test_an_index_is_read_as_it_was_written(found, data):
    channels = st.lists(st.sampled_from(index.CHANNELS), unique=True).map(sorted).map(tuple)
    made = make(*(Entry(v, data.draw(channels), 5, (LIST, SIGNATURE)) for v in found))
    assert index.parse(made.text()) == made
    kept = made.keeping(data.draw(st.integers(1, 4)))
    assert index.parse(kept.text()) == kept
    for channel in index.CHANNELS:
        assert kept.newest(channel) == made.newest(channel), "retention never takes the newest"


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["schema", "name", "serial", "releases", "withdrawn", "date"]), inner),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_nothing_else_is_an_index(content):
    with pytest.raises(ValueError, match=r"."):
        index.parse(content)


def changed(path, value):
    """Return an index with one value changed."""
    document = json.loads(make(entry("2.4.0", "candidate"), entry("2.4.1")).text())
    *way, last = path
    place = document
    for step in way:
        place = place[step]
    place[last] = value
    return json.dumps(document).encode()


FIRST = ("releases", 0)
FILE = (*FIRST, "artefacts", 0)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("schema",), 2, "no index of schema 1"),
        (("name",), "../x", "name '../x' is no name"),
        (("serial",), -1, "serial '-1' is no number"),
        (("serial",), True, "serial 'True' is no number"),
        (("serial",), 1 << 80, "is no number"),
        (("releases",), {}, "is no list"),
        (("withdrawn",), ["2.4.0"], "there twice"),
        (("withdrawn",), ["../../etc"], "'../../etc' is no version"),
        (("channels",), {"stable": "2.4.0"}, "channels do not fit"),
        (("more",), 1, "more than an index does"),
        ((*FIRST, "version"), "../2.4.0", "'../2.4.0' is no version"),
        ((*FIRST, "version"), "2.4.²", "is no version"),
        ((*FIRST, "version"), "2.4.1", "there twice"),
        ((*FIRST, "version"), "2.5.0", "not in their order"),
        ((*FIRST, "channels"), ["other"], "2.4.0: 'other' is no channel"),
        ((*FIRST, "date"), "now", "2.4.0: its date is no number"),
        ((*FIRST, "bases"), ["x"], "2.4.0: a base is no version"),
        ((*FIRST, "artefacts"), [], "2.4.0: it has no SHA256SUM, SHA256SUM.sig"),
        ((*FILE, "file"), "../SHA256SUM", "'../SHA256SUM' is no file name"),
        ((*FILE, "file"), "/etc/passwd", "'/etc/passwd' is no file name"),
        ((*FILE, "file"), "a\nb", "is no file name"),
        ((*FILE, "file"), ".hidden", "is no file name"),
        ((*FILE, "size"), 1 << 50, "size 1125899906842624 is not to be believed"),
        ((*FILE, "size"), 1.5, "size 1.5 is not to be believed"),
        ((*FILE, "sha256"), "x", "its digest is none"),
        ((*FILE, "kind"), 3, "its kind is no word"),
        ((*FIRST, "artefacts"), [{"file": "x"}], "a value is missing"),
    ],
)
def test_a_bad_index_is_refused(path, value, said):
    with pytest.raises(ValueError, match=r".") as caught:
        index.parse(changed(path, value))
    assert said in str(caught.value)


def test_a_file_that_is_there_twice():
    twice = entry("2.4.0", artefacts=(LIST, LIST, SIGNATURE))
    with pytest.raises(ValueError, match="'SHA256SUM' is there twice"):
        index.parse(make(twice).text())


@pytest.mark.parametrize(
    ("keep", "bases", "stay"),
    [
        (1, {}, ["2.2.0", "2.4.0"]),
        (2, {}, ["2.1.0", "2.2.0", "2.3.0", "2.4.0"]),
        (1, {"2.4.0": ("2.0.0",)}, ["2.0.0", "2.2.0", "2.4.0"]),
        # what a pack of something withdrawn started from is no use
        (1, {"2.3.0": ("2.0.0",)}, ["2.2.0", "2.4.0"]),
        (9, {}, ["2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"]),
    ],
)
def test_what_retention_keeps(keep, bases, stay):
    channels = {
        "2.0.0": "stable", "2.1.0": "stable", "2.2.0": "stable",
        "2.3.0": "candidate", "2.4.0": "candidate",
    }  # fmt: skip
    found = make(*(entry(v, c, bases=bases.get(v, ())) for v, c in channels.items()))
    kept = found.keeping(keep)
    assert [e.version for e in kept.releases] == stay
    assert kept.withdrawn == tuple(v for v in channels if v not in stay)


def test_promotion_adds_a_channel_and_a_maintenance_release_does_not_move_it_back():
    found = make(entry("2.4.0", "candidate", "stable"), entry("2.3.9", "candidate"))
    found = found.with_release(entry("2.3.9", "stable"))
    assert found.find("2.3.9").channels == ("candidate", "stable")
    assert found.newest("stable").version == "2.4.0"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("stable", "no release in channel stable"),
        ("2.3.0", "version 2.3.0 was withdrawn"),
        ("9.9.9", "'9.9.9' is no version that there is"),
        ("beta", "'beta' is no channel that there is"),
    ],
)
def test_what_there_is_not(wanted, said):
    found = dataclasses.replace(make(entry("2.4.0", "candidate")), withdrawn=("2.3.0",))
    with pytest.raises(ConfigError, match=said) as caught:
        index.resolve(found, wanted)
    assert "2.4.0" in caught.value.solution
    assert index.resolve(found, "candidate") == index.resolve(found, "2.4.0")
