"""Imports point one way, and importing does nothing."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

# In the order of the pipeline: a room may import itself and those above it.
ROOMS = (
    "core",
    "project",
    "machine",
    "store",
    "signatures",
    "debian",
    "packages",
    "redhat",
    "repositories",
    "pulls",
    "images",
    "salt_tree",
    "manual",
    "locks",
    "inputs",
    "bill",
    "medium",
    "sources",
    "proof",
    "compare",
    "publication",
    "updates",
    "release",
    "quality",
    "testbed",
)
# What starts doit, what it reads, and a command of its own: nothing below may know them.
EDGE = ("dodo", "buildchain.__main__", "buildchain.drawing")
STEP = "buildchain.core.step"
MODULES = 16  # at most, in a folder
LINES = 400  # at most, of a module
# Stand on such a library from their first line, and are imported late themselves.
ON_LIBRARIES = ("buildchain.proof.salt_jinja", "buildchain.store.transport")
LATE = (
    "docker",
    "pycdlib",
    "requests",
    "urllib3",
    "pyrpm",
    "static_container_registry",
    "jinja2",
    "cyclonedx",
    "spdx_tools",
    "license_expression",
    "sphinx",
    "myst_parser",
    "boto3",
    "botocore",
)


def modules(root: Path) -> dict[str, Path]:
    paths = [*sorted((root / "buildchain").rglob("*.py")), root / "dodo.py"]
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


def imported(path: Path, known: set[str]) -> set[str]:
    """Return every module a file imports, late ones too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(name if name in known else node.module for name in names)
    return found


def rank(name: str) -> int | None:
    """Return the rank of a module, ``None`` for the package itself and what is not ours."""
    if name in EDGE:
        return len(ROOMS)
    package, _, rest = name.partition(".")
    room = rest.partition(".")[0]
    return ROOMS.index(room) if package == "buildchain" and room in ROOMS else None


def is_steps(name: str) -> bool:
    return name.startswith("buildchain.") and name.endswith(".steps")


@pytest.fixture(scope="module")
def graph(root):
    paths = modules(root)
    return {name: imported(path, set(paths)) for name, path in paths.items()}


def test_every_module_has_a_rank(graph):
    assert [name for name in graph if rank(name) is None] == ["buildchain"]


def test_every_room_of_the_table_is_there(root):
    folders = {path.parent.name for path in (root / "buildchain").glob("*/__init__.py")}
    assert folders == set(ROOMS)


def test_no_arrow_points_up(graph):
    wrong = [
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in others
        if other.split(".")[0] in ("buildchain", "dodo") and (rank(other) or 0) > (rank(name) or 0)
    ]
    assert wrong == []


def test_one_module_of_a_room_knows_steps(graph):
    """What makes things can be used without doit; ``report`` asks which tasks only read."""
    knowing = {name for name, others in graph.items() if STEP in others and not is_steps(name)}
    assert knowing == {"buildchain.core.report"}
    wrong = {name for name, others in graph.items() if any(map(is_steps, others))}
    assert {name for name in wrong if not is_steps(name)} == {"dodo"}


def test_no_room_and_no_module_is_too_large(root):
    folders = {path.parent for path in modules(root).values()}
    count = {folder.name: len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: number for name, number in count.items() if number > MODULES} == {}
    lines = {
        name: len(path.read_text(encoding="utf-8").splitlines())
        for name, path in modules(root).items()
    }
    assert {name: number for name, number in lines.items() if number > LINES} == {}


def test_the_tests_mirror_the_rooms(root):
    """A test of a room is in the folder of that name, and there is no other folder."""
    others = {"salt"}
    folders = {path.parent.name for path in (root / "tests/unit").glob("*/test_*.py")}
    assert folders - others <= set(ROOMS)


def test_there_is_no_circle(graph):
    state: dict[str, bool] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert state.get(name) is not False, f"circle: {' > '.join((*trail, name))}"
        if name in state:
            return
        state[name] = False
        for other in graph.get(name, ()):
            visit(other, (*trail, name))
        state[name] = True

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize(
    ("module", "importers"),
    [
        ("subprocess", ("buildchain.core.process",)),
        ("buildchain.core.report", ("dodo",)),
        ("buildchain.core.state", ()),
        (
            "docker",
            (
                *("buildchain.debian", "buildchain.machine.engine"),
                "buildchain.testbed.vagrant",
            ),
        ),
        (
            "requests",
            (
                "buildchain.machine.engine",
                "buildchain.store.transport",
            ),
        ),
        ("urllib3", ("buildchain.store.transport",)),
        ("buildchain.store.transport", ("buildchain.store", "buildchain.publication.web")),
        ("boto3", ("buildchain.publication.bucket",)),
        ("botocore", ("buildchain.publication.bucket",)),
        ("pycdlib", ("buildchain.medium",)),
        ("pyrpm.spec", ("buildchain.packages.rpm",)),
        (
            "doit",
            (
                *("buildchain.__main__", "buildchain.drawing", "buildchain.core.report"),
                *("buildchain.core.state", "buildchain.core.step"),
            ),
        ),
        ("buildchain.drawing", ()),
    ],
)
def test_who_may_import_what(graph, module, importers):
    wrong = [
        name
        for name, others in graph.items()
        if any(other == module or other.startswith(f"{module}.") for other in others)
        and not name.startswith(importers or ("nobody",))
    ]
    assert wrong == []


def test_steps_say_what_is_done_and_do_nothing(graph):
    """Programs are run by the other modules of a room; nobody needs one to read the pins."""
    running = {name for name, others in graph.items() if "buildchain.core.process" in others}
    assert {name for name in running if is_steps(name)} == set()
    early = ("buildchain.core", "buildchain.project", "buildchain.store")
    assert {name for name in running if name.startswith(early)} == {"buildchain.project.source"}


def test_only_the_reporter_prints(root):
    """``step`` prints what ``clean`` removes, as doit does; the entry says "interrupted".

    ``dnf_solver`` is a program of its own.
    """
    found = set()
    for name, path in modules(root).items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id == "print":
                    found.add(name)
            elif isinstance(node, ast.Attribute) and ast.unparse(node) in (
                "sys.stdout", "sys.stderr",
            ):  # fmt: skip
                found.add(name)
    assert found <= {
        "buildchain.__main__",
        "buildchain.core.report",
        "buildchain.core.step",
        "buildchain.redhat.dnf_solver",
    }


def run(root: Path, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *argv], cwd=root, env=environment, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip


def test_importing_brings_in_nothing_heavy(root, tmp_path):
    code = (
        "import json, sys, pkgutil, importlib, buildchain, dodo\n"
        "for m in pkgutil.walk_packages(buildchain.__path__, 'buildchain.'):\n"
        f"    m.name in {ON_LIBRARIES!r} or importlib.import_module(m.name)\n"
        f"print(json.dumps([m for m in {LATE!r} if m in sys.modules]))"
    )
    result = run(root, "-c", code, PATH="/nonexistent", HOME=str(tmp_path),
                 BUILD_ROOT=str(tmp_path / "build"))  # fmt: skip
    assert result.stderr == ""
    assert json.loads(result.stdout) == []
    assert not (tmp_path / "build").exists(), "importing makes nothing"


def test_list_needs_neither_docker_nor_git(root, tmp_path):
    result = run(
        root, "-m", "doit", "list", "--all", "--private", PATH="/nonexistent",
        HOME=str(tmp_path), BUILD_ROOT=str(tmp_path / "build"), DOCKER_HOST="tcp://127.0.0.1:1",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert {"iso", "images", "packaging", "salt_tree", "populate_iso", "setup"} <= set(names)
    assert {"_iso_build", "_image_build:pause"} <= set(names)


def test_list_reads_as_a_menu(root, tmp_path):
    result = run(root, "-m", "doit", "list", PATH="/nonexistent", HOME=str(tmp_path),
                 BUILD_ROOT=str(tmp_path / "build"))  # fmt: skip
    lines = result.stdout.splitlines()
    assert 8 <= len(lines) <= 36
    for line in lines:
        name, _, help_text = line.partition(" ")
        assert not name.startswith("_")
        assert help_text.strip(), f"{name} has no help"


@pytest.mark.parametrize(
    ("variable", "value"), [("PROFILE", "none"), ("SOURCE_DATE_EPOCH", "tomorrow")]
)
def test_a_bad_setting_is_one_clear_error(root, tmp_path, variable, value):
    result = run(root, "-m", "doit", "list", PATH="/nonexistent", HOME=str(tmp_path),
                 BUILD_ROOT=str(tmp_path / "build"), **{variable: value})  # fmt: skip
    assert result.returncode != 0
    assert f"ConfigError: {variable}={value}: expected" in result.stderr
    assert "What to do:" in result.stderr
    assert "Traceback" not in result.stdout + result.stderr
