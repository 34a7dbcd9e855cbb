"""Checks of the project itself; they always run when asked for, and leave reports in ``_build``.

::

    _dev_environment ──> lint:{python,shell,yaml,salt,go}   format:{python,go}
          ├────────────> test:{unit,registry,render,integration,e2e}, test:soak
          └> _salt_environment ──────────────┘         │      │
      iso, _testbed_image, _conformance_image ─────────┘──────┘
    _dev_environment ──> bench:<name>
    iso ───────────────> test:fresh
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from buildchain.core import events
from buildchain.core.step import Removal, Task, guarded, remove_tree, title
from buildchain.machine.python import interpreter
from buildchain.machine.steps import checks
from buildchain.packages import steps as packages
from buildchain.project import config
from buildchain.project.context import Context, current
from buildchain.quality import checkers, fresh
from buildchain.quality.rings import Timetable

ENVIRONMENT = "_dev_environment"
SALT_ENVIRONMENT = "_salt_environment"
# Modules of tests/bench: what they measure, and what has to be there first.
BENCHES: dict[str, tuple[str, tuple[str, ...]]] = {
    "bootstrap": (
        "bootstrap.sh beside kubeadm init with preloaded images, as root",
        ("_testbed_image", "iso"),
    ),
    "cluster": ("deploy-node.sh beside kubeadm join, as root", ("_testbed_image", "iso")),
    "createrepo": ("our RPM repositories beside createrepo_c alone", ()),
    "dns": ("the names of a cluster: how soon they are there, how many are answered", ()),
    "iso": ("the ISO and its digest beside genisoimage and openssl", ("iso",)),
    "network": (
        "pods beside hosts, policies, and what an agent takes, as root",
        ("iso",),
    ),
    "plan": ("plan and pillar of a thousand machines", ()),
    "pull": ("our pulls beside skopeo and curl, as root", ()),
    "serve": ("the static registry beside docker-registry", ()),
    "update": ("update packs beside zstd --patch-from and xdelta3", ("iso",)),
    "verify": ("verify.sh beside openssl over the same files", ("iso",)),
}
# What serves, and what pulls from it.
CLIENTS = ("nginx", "openssl", "skopeo", "podman", "containerd", "ctr", "docker")
COVERAGE = (
    "--cov=buildchain",
    "--cov=metalk8s_bootstrap",
    "--cov=metalk8s_deployment",
    "--cov-report=term:skip-covered",
    "--cov-fail-under=85",
)
# A process for each processor; more than a few would wait for the disk and the engine.
PARALLEL = ("--numprocesses=auto", "--maxprocesses=4")
# In the order of their conftest: what takes longest begins first.
UNIT = (*PARALLEL, "--dist=loadfile", "--no-loadscope-reorder")
# Tests of one module share what is dear to make; conftest.py says which modules do, too.
GROUPED = (*PARALLEL, "--dist=loadgroup", "--no-loadscope-reorder")
# What the rings of the operators start a real API server from.
API_SERVER = ("etcd", "kubernetes")
# One fleet: each of its tests finds what those before have done.
FLEET = "tests/integration/test_fleet.py"
# In a soak: examples of each property, and media that lie to verify.sh.
SOAK_EXAMPLES, SOAK_LIES = 5000, 10000
TIMETABLE = Timetable()  # of this run of doit


def _task(name: str, text: str, action: Callable[[], object], doc: str, *after: str) -> Task:
    basename, _, item = name.partition(":")
    return {
        "basename": basename,
        "name": item,
        "doc": doc,
        "title": lambda _task: text,
        "actions": [(guarded(action), [])],
        "task_dep": list(after),
        "io": {"capture": False},
    }


def task__dev_environment() -> Task:
    """Install what lint, format and test need into the environment of the build."""
    context = current()
    venv, lock = interpreter().parent.parent, context.config.root / checkers.DEV_LOCK
    return {
        "basename": ENVIRONMENT,
        "title": lambda _task: title("INSTALL", checkers.DEV_LOCK),
        "actions": [(guarded(functools.partial(checkers.install, venv, lock)), [])],
        "uptodate": [functools.partial(checkers.has_installed, venv, lock)],
        "io": {"capture": False},
    }


def task__salt_environment() -> Task:
    """Install Salt as target machines will have it: on the system's Python."""
    context = current()
    venv = _salt_environment(context)
    lock = context.layout.salt_sources / "requirements.txt"
    return {
        "basename": SALT_ENVIRONMENT,
        "title": lambda _task: title("INSTALL", "Salt, for tests"),
        "actions": [(guarded(functools.partial(checkers.make_environment, venv, lock)), [])],
        "uptodate": [functools.partial(checkers.has_installed, venv, lock)],
        "task_dep": [ENVIRONMENT, *checks("gcc", "python3-config")],
        "clean": [Removal(str(venv), functools.partial(remove_tree, venv))],
        "io": {"capture": False},
    }


def _salt_environment(context: Context) -> Path:
    return context.layout.build / "salt-environment"


def task_lint() -> Iterator[Task]:
    """Run the linting tools."""
    context = current()
    root = context.config.root
    yield {"basename": "lint", "name": None, "doc": "Run the linting tools."}
    yield _task(
        "lint:python",
        title("LINT", "Python"),
        functools.partial(checkers.lint_python, root),
        "Run Python linting and type checks.",
        ENVIRONMENT,
    )
    yield _task(
        "lint:shell",
        title("LINT", "shell scripts"),
        functools.partial(_lint_shell, context),
        "Run shell scripts linting.",
        *checks("shellcheck", "git"),
    )
    yield _task(
        "lint:yaml",
        title("LINT", "YAML"),
        functools.partial(_lint_yaml, context),
        "Run YAML linting.",
        ENVIRONMENT,
        *checks("git"),
    )
    yield _task(
        "lint:salt",
        title("LINT", "Salt states"),
        functools.partial(_lint_salt, context),
        "Run Salt states linting.",
        ENVIRONMENT,
        *checks("git"),
    )
    yield _task(
        "lint:go",
        title("LINT", "Go"),
        functools.partial(_lint_go, context),
        "Run Go linting.",
        *checks("git"),
    )


def _files(context: Context, *patterns: str) -> list[Path]:
    return checkers.files(context.config.binary("git"), context.config.root, *patterns)


def _lint_shell(context: Context) -> None:
    scripts = [path for path in _files(context) if checkers.is_shell(path)]
    checkers.run_on(["shellcheck"], scripts, root=context.config.root)


def _lint_yaml(context: Context) -> None:
    argv = [str(interpreter()), "-m", "yamllint", "--strict"]
    checkers.run_on(argv, _files(context, "*.yaml", "*.yml"), root=context.config.root)


def _lint_salt(context: Context) -> None:
    argv = [str(interpreter().with_name("salt-lint"))]
    checkers.run_on(argv, _files(context, "*.sls"), root=context.config.root)


def _lint_go(context: Context) -> None:
    gofmt = context.config.binary("gofmt")
    checkers.lint_go(gofmt, _files(context, "*.go"), root=context.config.root)


def task_format() -> Iterator[Task]:
    """Format the code."""
    context = current()
    yield {"basename": "format", "name": None, "doc": "Format the code."}
    yield _task(
        "format:python",
        title("FORMAT", "Python"),
        functools.partial(checkers.format_python, context.config.root),
        "Format Python code.",
        ENVIRONMENT,
    )
    yield _task(
        "format:go",
        title("FORMAT", "Go"),
        functools.partial(_format_go, context),
        "Format Go code.",
        *checks("git"),
    )


def _format_go(context: Context) -> None:
    argv = [context.config.binary("gofmt"), "-s", "-w"]
    checkers.run_on(argv, _files(context, "*.go"), root=context.config.root)


def task_codegen() -> Task:
    """Generate the code of Go operators."""
    context = current()
    operator_sdk = context.config.binary("operator-sdk")
    # Checked only when there is an operator: no package of Debian has the SDK.
    needed = checks("operator-sdk") if checkers.operators(context.config.root) else ()
    return {
        "basename": "codegen",
        "doc": "Generate the code of operators written in Go (images/*/deploy/operator.yaml).",
        "title": lambda _task: title("GENERATE", "code of operators"),
        "actions": [
            (
                guarded(
                    functools.partial(
                        checkers.generate_operators, operator_sdk, context.config.root
                    )
                ),
                [],
            )
        ],
        "task_dep": list(needed),
        "io": {"capture": False},
    }


def task_test() -> Iterator[Task]:
    """Run the tests, the quick ones first."""
    context = current()
    tools = checks(*(tool.name for tool in context.tools if "test" in tool.purposes))
    yield {
        "basename": "test",
        "name": None,
        "doc": "Run the linters and the tests, the quick ones first.",
        "task_dep": ["lint"],
    }
    root = context.config.root
    registry = root / "static-container-registry"
    salt = (SALT_ENVIRONMENT,)
    # A profile may be without them; the tests that need them say so.
    shipped = {package.name for package in context.catalog.packages}
    suite = ("_conformance_image",) if "kubernetes" in shipped else ()
    whole = (*tools, *salt, "_testbed_image", *suite, "iso")
    api_server = tuple(
        packages.stage(name, "pkg_compile") for name in API_SERVER if name in shipped
    )
    for name, folder, path, options, after in (
        (
            "unit",
            root,
            "tests/unit",
            UNIT,
            checks("git", "gpg", "gpgv"),
        ),
        ("registry", registry, "tests", (), checks(*CLIENTS)),
        *(
            (folder.name, folder, "tests", (*PARALLEL, "--dist=loadfile"), api_server)
            for folder in checkers.programs(root)
        ),
        ("render", root, "tests/render", (), salt),
        ("integration", root, "tests/integration", GROUPED, whole),
        ("e2e", root, "tests/e2e", (), whole),
    ):
        yield _task(
            f"test:{name}",
            title("TEST", name),
            functools.partial(_run_tests, context, name, folder, path, options),
            f"Run the {name} tests.",
            ENVIRONMENT,
            *after,
        )
    yield {
        **_task(
            "test:soak",
            title("TEST", "soak"),
            functools.partial(_soak, context),
            "Run what takes hours: more kills, every file, cold compilers, fuzzers.",
            ENVIRONMENT,
            *whole,
        ),
        # Of no group: it is there for releases, and for who touches what it guards.
        "basename": "test:soak",
        "name": None,
    }


def _soak(context: Context) -> None:
    root = context.config.root
    lasting = (*GROUPED, "-m", "soak", f"--ignore={FLEET}")
    _run_tests(context, "soak", root, "tests/integration", lasting)
    # The stations of a journey only make sense together.
    _run_tests(context, "fleet", root, FLEET, ("-m", "integration"))
    _run_tests(context, "journey", root, "tests/e2e", ("-m", "e2e"))
    # Here and not in each run: to count lines takes a quarter of the ring's time again.
    _run_tests(context, "coverage", root, "tests/unit", (*UNIT, *COVERAGE))
    fuzzed = ("-m", "hypothesis or soak", *PARALLEL, "--dist=loadfile")
    examples = {"METALK8S_EXAMPLES": str(SOAK_EXAMPLES), "METALK8S_LIES": str(SOAK_LIES)}
    _run_tests(context, "fuzzers", root, "tests/unit", fuzzed, examples)
    for folder in (root / "operators" / name for name in ("dns", "network")):
        chosen = ("-m", "hypothesis or integration or soak")
        _run_tests(context, f"{folder.name}-soak", folder, "tests", chosen, examples)


def _run_tests(
    context: Context,
    ring: str,
    folder: Path,
    path: str,
    options: tuple[str, ...],
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    salt, report = _salt_environment(context), context.layout.build / "reports" / f"{ring}.xml"
    environment = {
        **deliverables(context),
        "METALK8S_SALT_ENVIRONMENT": str(salt),
        "METALK8S_SALT_PYTHON": str(salt / "bin" / "python3"),
        **more,
    }
    with TIMETABLE.ring(ring, report):
        checkers.run_tests(folder, [path], f"--junitxml={report}", *options, env=environment)


def deliverables(context: Context) -> dict[str, str]:
    """Say where the build has left what tests and benches look at."""
    layout = context.layout
    return {
        "METALK8S_BUILD_ROOT": str(layout.build),
        "METALK8S_CACHE_ROOT": str(layout.cache),
        "METALK8S_ISO": str(layout.iso),
    }


def task_test_fresh() -> Task:
    """Run README's first command on a machine that nobody prepared, and compare the ISO."""
    context = current()
    return {
        # Not one of `test`: it takes as long as a first build does.
        "basename": "test:fresh",
        "doc": task_test_fresh.__doc__,
        "title": lambda _task: title("TEST", "a fresh machine"),
        "actions": [(guarded(functools.partial(_test_fresh, context)), [])],
        "task_dep": [*checks("git", "mmdebstrap", "rpm"), "iso"],
        "io": {"capture": False},
    }


def _test_fresh(context: Context) -> None:
    layout, settings = context.layout, context.config
    fresh.check(layout, settings.binary("git"))
    kept = {
        option.name: os.environ[option.name]
        for option in config.OPTIONS
        if option.name in os.environ and option.name not in fresh.ITS_OWN
    }
    with fresh.built(layout, context.catalog, settings.binary("git"), kept) as there:
        count = fresh.compare(layout, there)
    events.closing(f"the ISO of a fresh machine is the same: {count} files and folders")


def task_bench() -> Iterator[Task]:
    """Measure ourselves beside the tools people use today, in the same run."""
    context = current()
    yield {"basename": "bench", "name": None, "doc": task_bench.__doc__}
    for name, (what, needed) in BENCHES.items():
        yield _task(
            f"bench:{name}",
            title("BENCH", name),
            functools.partial(_bench, context, name),
            f"Measure {what}.",
            ENVIRONMENT,
            *checks(*(tool.name for tool in context.tools if "test" in tool.purposes)),
            *needed,
        )


def _bench(context: Context, name: str) -> None:
    checkers.run_module(context.config.root, f"tests.bench.{name}", env=deliverables(context))
