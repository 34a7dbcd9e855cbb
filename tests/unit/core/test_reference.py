import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core import reference
from buildchain.core.reference import Reference

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("registry.example/app", Reference("registry.example", "app")),
        ("localhost/app:1", Reference("localhost", "app", "1")),
        ("127.0.0.1:50/a/b-c/d__e:v1.0_x-y", Reference("127.0.0.1:50", "a/b-c/d__e", "v1.0_x-y")),
        (f"r.example/a@{DIGEST}", Reference("r.example", "a", "", DIGEST)),
        (f"r.example:443/a:t@{DIGEST}", Reference("r.example:443", "a", "t", DIGEST)),
        ("[::1]:5000/a", Reference("[::1]:5000", "a")),
        ("r.example/a---b", Reference("r.example", "a---b")),
    ],
)  # fmt: skip
def test_parse(text, expected):
    assert reference.parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "app",
        "app:1.0",
        "library/app",  # no registry: which one is meant depends on the machine
        "r.example/",
        "r.example/App",
        "r.example/a//b",
        "r.example/a:",
        "r.example/a:-x",
        f"r.example/a:{'x' * 129}",
        "r.example/a@sha256:00",
        f"r.example/a@{DIGEST.upper()}",
        f"r.example/a@{DIGEST}:t",
        "r.example/a_",
        "r.example/a___b",
        "r.example/a/../b",
        "https://r.example/a",
        "r.example/a b",
        "r.example/a\n",
        f"r.example/{'a' * 256}",
    ],
)
def test_refuse(text):
    with pytest.raises(ValueError, match=r"^registry\[:port\]/path"):
        reference.parse(text)


PART = st.from_regex(r"[a-z0-9]{1,8}([._-][a-z0-9]{1,5}){0,2}", fullmatch=True)


@given(
    st.from_regex(r"[a-z]{1,5}\.[a-z]{2,3}(:[1-9][0-9]{0,3})?", fullmatch=True),
    st.lists(PART, min_size=1, max_size=4),
    st.one_of(st.just(""), st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True)),
    st.one_of(st.just(""), st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True)),
)
def test_round_trip(registry, parts, tag, digest):
    made = Reference(registry, "/".join(parts), tag, digest)
    assert reference.parse(str(made)) == made


@given(st.text(alphabet="aA0.:/@-_[]sh25%\n ", max_size=40))
def test_whatever_is_read_is_written_the_same(text):
    try:
        found = reference.parse(text)
    except ValueError:
        return
    assert str(found) == text
