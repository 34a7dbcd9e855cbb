"""Every claim of the threat model names tests, and they are there."""

import re

import pytest

PAGE = "docs/explanation/threat-model.md"
NAMED = re.compile(r"`(?P<path>[\w/.-]+\.py)::(?P<test>test_\w+)`")


@pytest.fixture(scope="module")
def text(root):
    return (root / PAGE).read_text(encoding="utf-8")


def test_every_test_that_is_named_is_there(root, text):
    named = {(match["path"], match["test"]) for match in NAMED.finditer(text)}
    sources = {
        path: (root / path).read_text(encoding="utf-8") if (root / path).is_file() else ""
        for path, _ in named
    }
    missing = [
        f"{path}::{test}" for path, test in sorted(named) if f"def {test}(" not in sources[path]
    ]
    assert missing == []


def test_every_claim_names_a_test(text):
    """A row of three cells is a claim; the first two of a table are its heading."""
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    claims = [row for row in rows if row.count(" | ") == 2 and "| test |" not in row]
    assert len(claims) > 20
    assert [line for line in claims if not NAMED.search(line.rpartition(" | ")[2])] == []


@pytest.mark.parametrize(
    "section",
    ["Source and inputs", "The medium", "A place with releases", "A machine", "The cluster"],
)
def test_every_section_says_what_is_not_kept_out(text, section):
    part = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    assert "*Not kept out.*" in part
