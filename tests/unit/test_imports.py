"""Imports point one way, and importing does nothing."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

# From the top: a module may import its own rank and those below.
RANKS = {
    "dodo": 7,
    # A room: its part of the graph stands on the tasks, the rest of it below them.
    "buildchain.release.steps": 6,
    "buildchain.release": 4,
    "buildchain.tasks.context": 4,
    "buildchain.publication.steps": 6,
    "buildchain.publication": 4,
    "buildchain.updates.steps": 6,
    "buildchain.updates": 4,
    "buildchain.tasks": 5,
    "buildchain.signatures.steps": 5,
    "buildchain.targets": 4,
    "buildchain.manual": 4,
    "buildchain.actions": 3,
    "buildchain.signatures": 3,
    "buildchain.tools": 2,
    "buildchain.store": 2,
    "buildchain.process": 1,
    **{
        f"buildchain.{name}": 0
        for name in (
            "events",
            "model",
            "catalog",
            "layout",
            "listing",
            "config",
            "env_file",
            "errors",
            "receipt",
            "reference",
            "roots",
            "vulnerabilities",
        )
    },
}
# doit's side: what starts it, draws and remembers. Nothing of the graph below may know them.
EDGE = {
    "buildchain.__main__": 7,
    "buildchain.drawing": 7,
    "buildchain.report": 7,
    "buildchain.state": 7,
}
# Stands on it from its first line, and is imported late itself.
ON_JINJA = ("buildchain.tools.salt_jinja",)
LATE = (
    "docker",
    "pycdlib",
    "requests",
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
    for prefix, value in {**RANKS, **EDGE}.items():
        if name == prefix or name.startswith(f"{prefix}."):
            return value
    return None


@pytest.fixture(scope="module")
def graph(root):
    paths = modules(root)
    return {name: imported(path, set(paths)) for name, path in paths.items()}


def test_every_module_has_a_rank(graph):
    assert [name for name in graph if rank(name) is None] == ["buildchain"]


def test_no_arrow_points_up(graph):
    wrong = [
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in others
        if other.split(".")[0] in ("buildchain", "dodo") and (rank(other) or 0) > (rank(name) or 0)
    ]
    assert wrong == []


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
        ("subprocess", ("buildchain.process",)),
        ("buildchain.report", ("dodo",)),
        ("buildchain.state", ()),
        ("docker", ("buildchain.actions", "buildchain.tasks")),
        ("requests", ("buildchain.actions", "buildchain.publication.web")),
        ("boto3", ("buildchain.publication.bucket",)),
        ("botocore", ("buildchain.publication.bucket",)),
        ("pycdlib", ("buildchain.actions",)),
        ("pyrpm.spec", ("buildchain.tools.rpm",)),
        (
            "doit",
            (
                *("buildchain.__main__", "buildchain.drawing", "buildchain.report"),
                *("buildchain.state", "buildchain.targets"),
            ),
        ),
        ("buildchain.drawing", ()),
        (
            "buildchain.process",
            (
                *("buildchain.actions", "buildchain.manual", "buildchain.process"),
                *("buildchain.publication", "buildchain.signatures"),
            ),
        ),
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


def test_only_the_reporter_prints(root):
    """``targets`` prints what ``clean`` removes, as doit does; the entry says "interrupted".

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
        "buildchain.report",
        "buildchain.targets.step",
        "buildchain.tools.dnf_solver",
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
        f"    m.name in {ON_JINJA!r} or importlib.import_module(m.name)\n"
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
