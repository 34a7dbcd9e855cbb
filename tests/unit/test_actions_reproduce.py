import dataclasses

import pytest

from buildchain.actions import reproduce
from buildchain.errors import ConfigError, ContentError

MANIFEST = "#name=Demo\n0 d 0755 0 salt\n{sha} f 0644 1 salt/a b\n1 f {mode} 1 other\n"


def built(layout, name, *, sha="2", mode="0644", iso="same", content="x"):
    made = dataclasses.replace(layout, build=layout.build / name)
    (made.iso_root / "salt").mkdir(parents=True)
    (made.iso_root / "MANIFEST").write_text(MANIFEST.format(sha=sha, mode=mode))
    (made.iso_root / "salt/a b").write_text(content)
    (made.iso_root / "other").write_text("o")
    made.iso.write_text(iso)
    return made


def test_equal(layout, recorded):
    reproduce.compare(built(layout, "one"), built(layout, "two"))
    assert "came out the same" in "\n".join(recorded.lines)


@pytest.mark.parametrize(
    ("second", "names", "words"),
    [
        ({"sha": "3", "content": "y"}, "salt/a b", "1 170 171"),
        ({"mode": "0755"}, "other", "modes or types differ"),
    ],
)
def test_what_differs_is_named(layout, recorded, second, names, words):
    first, other = built(layout, "one"), built(layout, "two", iso="other", **second)
    with pytest.raises(ContentError, match=f"1 files differ in a second build.*{names}"):
        reproduce.compare(first, other)
    assert words in " ".join("\n".join(recorded.lines).split())


def test_a_file_that_is_missing(layout):
    first, other = built(layout, "one"), built(layout, "two", sha="3", iso="other")
    (other.iso_root / "salt/a b").unlink()
    assert (
        reproduce.explain(first.iso_root / "salt/a b", other.iso_root / "salt/a b")
        == "is not in the second build"
    )


def test_only_the_image_differs(layout):
    with pytest.raises(ContentError, match="the trees are equal"):
        reproduce.compare(built(layout, "one"), built(layout, "two", iso="other"))


GIT = """
import pathlib
if "describe" in argv:
    print({described!r})
else:
    target = pathlib.Path(argv[-1])
    target.mkdir()
    script = "#!/bin/sh\\n(umask; echo $TZ $BUILD_ROOT $CACHE_ROOT) >said\\n"
    (target / "doit.sh").write_text(script)
    (target / "doit.sh").chmod(0o755)
"""


@pytest.mark.parametrize("cold", [False, True])
def test_rebuild(layout, fake_program, cold):
    fake_program("git", GIT.format(described="1.0-0-gabc"))
    (layout.root / ".venv").mkdir(parents=True)
    build = reproduce.rebuild(layout, "git", {"PROFILE": "default"}, cold=cold)
    checkout = build.parent
    assert layout.build in checkout.parents
    mask, settings = (checkout / "said").read_text().splitlines()
    assert mask.endswith("77")
    zone, build_root, cache = settings.split()
    assert (zone, build_root) == ("Pacific/Kiritimati", "_build")
    assert (cache == str(layout.cache)) is not cold
    assert (checkout / ".venv").is_symlink()


def test_changes_that_are_not_committed(layout, fake_program):
    fake_program("git", GIT.format(described="1.0-0-gabc-dirty"))
    with pytest.raises(ConfigError, match="differ from its commit"):
        reproduce.rebuild(layout, "git", {}, cold=False)
