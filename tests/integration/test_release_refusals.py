"""What ``./doit.sh release`` refuses in a real clone: one clear line each; nothing is built."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterator

import pytest

from tests.integration import tagged as tagging
from tests.integration.checkout import Checkout
from tests.integration.conftest import run
from tests.integration.tagged import TARGET, Tagged

pytestmark = pytest.mark.integration

REASON = re.compile(r"^    \| (.+)$", re.MULTILINE)
LOCK, TABLE = "buildchain/pins/default/debian.lock", "buildchain/pins/vulnerabilities.toml"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tagged]:
    """Provide a clone that can be released."""
    with (
        tagging.key_home() as home,
        tagging.tagged(tmp_path_factory.mktemp("tagged"), home) as found,
    ):
        yield found


@pytest.fixture
def tagged(pristine: Tagged, tmp_path: pathlib.Path) -> Tagged:
    """Return a copy that a test may spoil."""
    folder = tmp_path / "checkout"
    run("cp", "-a", pristine.checkout.folder, folder)
    cache = pathlib.Path(pristine.checkout.environment["CACHE_ROOT"])
    return dataclasses.replace(pristine, checkout=Checkout(folder, cache))


@dataclasses.dataclass(frozen=True)
class Refusal:
    """What is wrong, and what the one line about it begins with.

    :param edit: file, what stands there and what is put in its place; committed and tagged.
    :param settings: of the environment.
    :param options: of ``release``; ``{iso}`` is the one that the ring has.
    """

    begins: str
    prepare: Callable[[Tagged], object] = lambda tagged: None
    edit: tuple[str, str, str] | None = None
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    options: tuple[str, ...] = ()

    def happen(self, tagged: Tagged) -> None:
        self.prepare(tagged)
        if self.edit:
            tagged.edit(*self.edit)
            tagged.commit()


def older(tagged: Tagged) -> None:
    """Be a release that is older than what there is."""
    tagged.edit("VERSION", "VERSION_MINOR=4", "VERSION_MINOR=3")
    tagged.edit("CHANGELOG.md", f"## {TARGET}", "## 2.3.0")
    tagged.git("commit", "--quiet", "--all", "--message=release: an older one")
    tagged.git("tag", "2.3.0")


ISO = ("--previous", "{iso}")
REFUSALS = {
    "not tracked": Refusal(
        "checkout: 1 files are changed or not tracked (new)",
        lambda tagged: (tagged.checkout.folder / "new").touch(),
    ),
    "changed": Refusal(
        "checkout: 1 files are changed or not tracked (README.md)",
        lambda tagged: tagged.edit("README.md", "MetalK8s", "Metal"),
    ),
    "no tag": Refusal(
        "tag: the commit has no tag of a version", lambda t: t.git("tag", "--delete", TARGET)
    ),
    "tag of another version": Refusal(
        f"tag: the commit has the tags {TARGET}, 2.4.1;", lambda t: t.git("tag", "2.4.1")
    ),
    "commit after the tag": Refusal(
        "tag: the commit has no tag of a version",
        lambda t: t.git("commit", "--quiet", "--allow-empty", "--message=x"),
    ),
    "version": Refusal(
        "VERSION: 2.4.0-dev is no version of a release",
        edit=("VERSION", "VERSION_SUFFIX=", "VERSION_SUFFIX=dev"),
    ),
    "in development": Refusal(
        "CHANGELOG.md: 2.4.0 has no date of release but (in development)",
        edit=("CHANGELOG.md", "(2026-12-01)", "(in development)"),
    ),
    "nothing in the changelog": Refusal(
        "CHANGELOG.md: nothing is said of 2.4.0", edit=("CHANGELOG.md", "## 2.4.0", "## 2.3.0")
    ),
    "nothing but a heading": Refusal(
        "CHANGELOG.md: the section 2.4.0 is empty",
        edit=("CHANGELOG.md", "(2026-12-01)\n", "(2026-12-01)\n\n## 2.3.0 (2026-11-01)\n"),
    ),
    "development key": Refusal(
        "SIGNING_KEY: not set, a development key would sign",
        # A key implies that policy.
        settings={"SIGNING_KEY": "", "LOCK_POLICY": "strict"},
    ),
    "key that is not here": Refusal(
        f"SIGNING_KEY: no secret key {'AB' * 20}", settings={"SIGNING_KEY": "AB" * 20}
    ),
    "stale lock": Refusal("locks: ", edit=(LOCK, '"floor"', '"ceiling"')),
    "open vulnerabilities": Refusal(
        f"{TABLE}: ", edit=(TABLE, 'accepts = "medium"', 'accepts = "low"')
    ),
    "foreign base": Refusal(
        "BASE_IMAGE: registry.invalid/base@sha256:",
        settings={"BASE_IMAGE": f"registry.invalid/base@sha256:{'0' * 64}"},
    ),
    "no release before": Refusal(
        "--previous none.iso: ", options=("--previous", "none.iso")
    ),
    "release before of another product": Refusal(
        "--previous ", settings={"PROJECT_NAME": "Other"}, options=ISO
    ),
    "release before that is newer": Refusal(
        "--previous ", older, options=ISO
    ),
    "base without lists": Refusal(
        "--update-from VERSION: there is no ", options=("--update-from", "VERSION")
    ),
    "base by a stranger": Refusal(
        "--update-from ", options=("--update-from", "{iso}")
    ),
}  # fmt: skip


def refused(tagged: Tagged, refusal: Refusal, iso: pathlib.Path) -> list[str]:
    options = [word.format(iso=iso) for word in refusal.options]
    settings = {**tagged.settings(), **refusal.settings}
    said = tagged.checkout.fails("release", "--dry-run", *options, **settings)
    assert "ReleaseError" in said, said
    assert not (tagged.checkout.folder / "_build").exists()
    return REASON.findall(said)


@pytest.mark.soak
@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_each_refusal(tagged: Tagged, refusal: Refusal, iso: pathlib.Path) -> None:
    """Of locks and vulnerabilities there is a line for each."""
    refusal.happen(tagged)
    lines = refused(tagged, refusal, iso)
    assert len(lines) == 1 or refusal.begins.startswith(("locks: ", TABLE)), lines
    assert all(line.startswith(refusal.begins) for line in lines), lines


def test_all_refusals_at_once(tagged: Tagged) -> None:
    """Before anything is built; without any of them nothing is missing."""
    assert "Nothing is missing." in tagged.checkout.succeeds(
        "release", "--dry-run", **tagged.settings()
    )
    there = (
        *("version", "in development", "stale lock", "open vulnerabilities"),
        *("not tracked", "tag of another version"),
    )
    for name in there:
        REFUSALS[name].happen(tagged)
    settings = {"GNUPGHOME": str(tagged.home), "LOCK_POLICY": "roll"}
    settings |= REFUSALS["foreign base"].settings
    said = tagged.checkout.fails("release", "--previous", "none.iso", **settings)
    lines = REASON.findall(said)
    expected = (*there, "development key", "foreign base", "no release before")
    for begins in ("LOCK_POLICY: roll", *(REFUSALS[name].begins for name in expected)):
        assert any(line.startswith(begins) for line in lines), begins
    assert not (tagged.checkout.folder / "_build/root").exists()
    assert not (tagged.checkout.folder / "_build/release").exists()
