"""The pipelines for others call our tasks and nothing else, and keep what they should."""

import re
import subprocess
import sys

import pytest
import yaml

from buildchain.medium import versions
from buildchain.project import config
from tests.conftest import ROOT

FOLDER = ROOT / "docs/ci"
COMMAND = re.compile(r"\./doit\.sh((?: [\w:-]+)+)")
USES = re.compile(r"      - uses: actions/[a-z-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
# Ends in days, as both write it.
RETENTION = {"14": 14, "90": 90, "2 weeks": 14, "90 days": 90}


@pytest.fixture(scope="module")
def github():
    return yaml.safe_load((FOLDER / "github.yml").read_text())


@pytest.fixture(scope="module")
def gitlab():
    return yaml.safe_load((FOLDER / "gitlab.yml").read_text())


@pytest.fixture(scope="module")
def known():
    argv = [sys.executable, "-m", "doit", "list", "--all", "--quiet"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {line.strip() for line in listed.splitlines()}


@pytest.fixture(scope="module")
def jobs(github, gitlab):
    """Return the commands of each job: service, job, line."""
    found = {
        ("github", name): [step["run"] for step in job["steps"] if "run" in step]
        for name, job in github["jobs"].items()
    }
    keywords = ("stages", "variables")
    return found | {
        ("gitlab", name): job["script"]
        for name, job in gitlab.items()
        if name not in keywords and not name.startswith(".")
    }


def test_they_call_our_tasks_and_nothing_else(jobs, known):
    for job, lines in jobs.items():
        assert lines, job
        for line in lines:
            match = COMMAND.fullmatch(line)
            assert match, f"{job}: {line}"
            words = match[1].split()
            assert {word for word in words if not word.startswith("-")} <= known, line
            assert {word for word in words if word.startswith("-")} <= {"--dry-run"}, line


def test_both_do_the_same(jobs):
    assert sorted(jobs) == [
        (service, job) for service in ("github", "gitlab") for job in ("release", "test")
    ]
    for job in ("test", "release"):
        assert jobs["github", job] == jobs["gitlab", job]
    assert jobs["github", "test"] == ["./doit.sh setup test"]
    assert jobs["github", "release"][-2:] == ["./doit.sh release --dry-run", "./doit.sh release"]


def test_what_others_wrote_is_pinned_by_commit():
    lines = (FOLDER / "github.yml").read_text().splitlines()
    uses = [line for line in lines if "uses:" in line]
    assert len(uses) == 7
    assert [line for line in uses if not USES.fullmatch(line)] == []
    pins = {line.split("@")[0]: set() for line in uses}
    for line in uses:
        pins[line.split("@")[0]].add(line.split("@")[1])
    assert {name: len(found) for name, found in pins.items()} == dict.fromkeys(pins, 1)


def test_caches_have_keys_of_locks(github, gitlab):
    """A key that names no file is the same for ever, and nothing would be cached anew."""
    keys = [
        step["with"]["key"]
        for job in github["jobs"].values()
        for step in job["steps"]
        if "actions/cache" in step.get("uses", "")
    ]
    assert len(keys) == 2
    for key in keys:
        patterns = re.findall(r"'([^']+)'", re.search(r"hashFiles\((.*)\)", key)[1])
        assert patterns
        for pattern in patterns:
            assert list(ROOT.glob(pattern)), pattern
        assert any(path.name == "debian.lock" for p in patterns for path in ROOT.glob(p))
    for job in ("test", "release"):
        files = gitlab[job]["cache"]["key"]["files"]
        assert len(files) <= 2, "GitLab takes no more"
        assert all((ROOT / name).is_file() for name in files)
        assert any(name.endswith("debian.lock") for name in files)


def test_only_downloads_are_cached(github, gitlab):
    """Whoever may read a cache must not find a key there."""
    paths = [
        step["with"]["path"]
        for job in github["jobs"].values()
        for step in job["steps"]
        if "actions/cache" in step.get("uses", "")
    ]
    default = next(option.default for option in config.OPTIONS if option.name == "CACHE_ROOT")
    assert set(paths) == {f"{default}/store"}
    root = gitlab["variables"]["CACHE_ROOT"]
    assert [gitlab[job]["cache"]["paths"] for job in ("test", "release")] == [[f"{root}/store"]] * 2


def test_roots_of_gitlab_can_be_used(gitlab, tmp_path):
    """What GitLab restores is there before the build, and git has to ignore all of it."""
    roots = {name: gitlab["variables"][name] for name in ("BUILD_ROOT", "CACHE_ROOT")}
    (tmp_path / "buildchain/pins/default").mkdir(parents=True)
    (tmp_path / "buildchain/pins/default/profile.toml").touch()
    (tmp_path / roots["CACHE_ROOT"] / "store/sha256").mkdir(parents=True)
    loaded = config.load(tmp_path, roots)
    assert loaded.build_root == tmp_path / "_build/build"
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert all(f"/{root.split('/')[0]}/" in ignored for root in roots.values())


def test_everything_kept_has_an_end(github, gitlab):
    uploads = [
        step["with"]
        for job in github["jobs"].values()
        for step in job["steps"]
        if "upload-artifact" in step.get("uses", "")
    ]
    kept = {upload["path"]: RETENTION[str(upload["retention-days"])] for upload in uploads}
    assert kept == {"_build/release/": 90, "_build/build.log": 14}
    build = gitlab["variables"]["BUILD_ROOT"]
    artifacts = {job: gitlab[job]["artifacts"] for job in ("test", "release")}
    assert artifacts["release"]["paths"][0] == f"{build}/release"
    ends = {job: RETENTION[entry["expire_in"]] for job, entry in artifacts.items()}
    assert ends == {"test": 14, "release": 90}


def as_expression(pattern):
    """Translate a filter of GitHub, of which these have digits, dots and plus alone."""
    return re.compile(pattern.replace(".", r"\."))


@pytest.mark.parametrize(
    "tag", ["2.4.0", "2.4.0-rc.1", "10.20.30", "v2.4.0", "2.4", "2.4.0-dev", "2.4.0-rc1", "x2.4.0"]
)
def test_tags_that_release_are_versions(github, gitlab, tag):
    is_version = versions.parse(tag) is not None
    filters = github[True]["push"]["tags"]  # YAML 1.1 reads `on` as true
    assert any(as_expression(each).fullmatch(tag) for each in filters) is is_version
    (rule,) = gitlab["release"]["rules"]
    expression = re.search(r"=~ /(.*)/$", rule["if"])[1]
    assert bool(re.search(expression, tag)) is is_version


def test_versions_can_be_counted_in_clones(github, gitlab):
    for job in github["jobs"].values():
        assert job["steps"][0]["with"]["fetch-depth"] == 0
        assert job["steps"][0]["with"]["persist-credentials"] is False
    assert gitlab["variables"]["GIT_DEPTH"] == "0"


def test_strangers_start_nothing(github, gitlab):
    assert set(github[True]) == {"push"}
    assert github["permissions"] == {"contents": "read"}
    assert all("self-hosted" in job["runs-on"] for job in github["jobs"].values())
    assert '"push"' in gitlab["test"]["rules"][0]["if"]
