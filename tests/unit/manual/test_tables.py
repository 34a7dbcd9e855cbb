"""Tables of the manual that are made from data; METALK8S_UPDATE_GOLDEN=1 writes them anew."""

import os
import re
import subprocess
import sys

import pytest

from buildchain.project import config
from tests.conformance import choice
from tests.conftest import ROOT

ROWS = re.compile(r"(?<=\|---\|\n)(\|.*\n)*")


def row(*cells):
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def options():
    for option in config.OPTIONS:
        yield row(f"`{option.name}`", f"`{option.default}`" if option.default else "", option.help)


def tasks():
    listed = subprocess.run(
        [sys.executable, "-m", "doit", "list", "--template", "{name}\t{doc}\n"],
        cwd=ROOT, env={**os.environ, "PROFILE": "default"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    for line in filter(None, listed.stdout.splitlines()):
        name, doc = line.split("\t")
        yield row(f"`{name}`", doc)


def conformance():
    choices, known = choice.read(), choice.known()
    for name in choices.covered(known):
        when = "every run of CI" if name in choices.dozen else "soak"
        reason = choices.excluded.get(name, "")
        # Code, so that brackets are no links.
        yield row(f"`{name.removeprefix('[sig-network] ')}`", "never" if reason else when, reason)


@pytest.mark.parametrize(
    ("page", "rows"), [("options", options), ("tasks", tasks), ("conformance", conformance)]
)
def test_table(page, rows):
    path = ROOT / "docs/reference" / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    wanted = ROWS.sub(lambda _: "".join(rows()), text, count=1)
    if os.environ.get("METALK8S_UPDATE_GOLDEN"):
        path.write_text(wanted, encoding="utf-8")
    assert text == wanted


def test_glossary():
    """Each term once, in the order of the alphabet."""
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    terms = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines()
             if line.startswith("| ")][1:]  # fmt: skip
    assert len(terms) > 30
    assert terms == sorted(set(terms), key=str.lower)
