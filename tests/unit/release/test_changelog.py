"""Sections of CHANGELOG.md."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.release import changelog
from tests.conftest import ROOT

TEXT = """# Changelog

What changed.

## 2.4.0 (2026-12-01)

- One thing,
  on two lines.

```
## 9.9.9 (2026-12-02)
```

## 2.4.0-rc.1 (in development)

## 2.3.0

- Another.
"""


def test_sections():
    found = changelog.sections(TEXT)
    assert [(s.version, s.state, s.is_released) for s in found] == [
        ("2.4.0", "2026-12-01", True),
        ("2.4.0-rc.1", "in development", False),
        ("2.3.0", "", False),
    ]
    assert found[0].text.startswith("- One thing,\n  on two lines.\n\n```\n## 9.9.9")
    assert found[1].text == ""
    assert changelog.find(TEXT, "9.9.9") is None


def test_page():
    section = changelog.find(TEXT.replace("## 2.3.0", "## 2.3.0 (2026-01-02)"), "2.3.0")
    assert changelog.page("MetalK8s", section) == "# MetalK8s 2.3.0 (2026-01-02)\n\n- Another.\n"


@pytest.mark.parametrize("state", ["2026-13-01", "20261201", "2026-12-1", "today", ""])
def test_what_is_no_date(state):
    assert not changelog.Section("1.0.0", state, "x").is_released


def test_our_own_list_has_the_version_that_is_made(root):
    found = changelog.sections((ROOT / "CHANGELOG.md").read_text())
    assert found[0].version == "2.4.0"
    assert found[0].text.startswith("- ")


LINES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), max_size=30).filter(
    lambda line: not line.startswith(("## ", "```"))
)


@given(
    st.dictionaries(st.from_regex(r"[0-9]\.[0-9]\.[0-9]", fullmatch=True), st.lists(LINES)),
    st.dates(),
)
def test_every_section_is_found(contents, date):
    text = "# Changelog\n"
    for version, lines in contents.items():
        text += "\n".join([f"\n## {version} ({date.isoformat()})", "", *lines, ""])
    for version, lines in contents.items():
        section = changelog.find(text, version)
        assert section.is_released
        expected = "\n".join(line.rstrip() for line in lines).strip()
        assert section.text == expected
