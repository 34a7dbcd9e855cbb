"""What decides a step's result is told to doit: its settings and the code that makes it."""

import dataclasses
import dis
import functools
import inspect
import sys
import types

import pytest

from buildchain import catalog
from buildchain.actions import salt_tree
from buildchain.receipt import Made, write_whole
from buildchain.tasks import context
from buildchain.tasks import salt_tree as salt_tree_tasks
from tests.conftest import ROOT
from tests.unit.running import namespace_of, run_doit

ACTIONS = "buildchain.actions."
# They bring things there or name what is built; what comes out does not depend on how.
MEANS = {f"{ACTIONS}{name}" for name in ("engine", "inputs", "source")}


def steps_of_the_product():
    """Return every step that makes something, by name."""
    import dodo

    found = {}
    for name in dodo.__all__:
        if name.startswith("task_"):
            made = getattr(dodo, name)()
            for task in made if inspect.isgenerator(made) else [made]:
                for action in task.get("actions") or ():
                    first = action[0] if isinstance(action, tuple) else action
                    execute = getattr(first, "__wrapped__", None)
                    step = getattr(execute, "__self__", None)
                    if step is not None and step.action is not Made:
                        found[step.name] = step
    return found


def modules_of(function, module):
    """Yield the modules of actions that a function names, itself or through its neighbours."""
    while isinstance(function, functools.partial):
        function = function.func
    if function.__module__.startswith(ACTIONS):
        yield function.__module__
        return
    if function.__module__ != module:
        return
    for named in named_by(function):
        if isinstance(named, types.ModuleType) and named.__name__.startswith(ACTIONS):
            yield named.__name__
        elif isinstance(named, types.FunctionType | functools.partial) and named is not function:
            yield from modules_of(named, module)


def named_by(function):
    """Yield what a function takes from its module and from the functions around it."""
    yield from (cell.cell_contents for cell in function.__closure__ or ())
    for code in codes(function.__code__):
        for instruction in dis.get_instructions(code):
            if instruction.opname == "LOAD_GLOBAL":
                yield function.__globals__.get(instruction.argval)


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def module_of(function):
    while isinstance(function, functools.partial):
        function = function.func
    return function.__module__


@pytest.mark.parametrize("profile", ["default", "upstream"])
def test_each_step_names_the_code_that_makes_it(monkeypatch, tmp_path, profile):
    for name in ("BUILD_ROOT", "CACHE_ROOT"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PROFILE", profile)
    monkeypatch.delitem(sys.modules, "dodo", raising=False)
    context.current.cache_clear()
    try:
        steps = steps_of_the_product()
    finally:
        context.current.cache_clear()
        sys.modules.pop("dodo", None)
    assert len(steps) > 50
    wrong = {
        name: sorted(missing)
        for name, step in steps.items()
        if (
            missing := set(modules_of(step.action, module_of(step.action)))
            - {module.__name__ for module in step.code}
            - MEANS
        )
    }
    assert wrong == {}
    assert [name for name, step in steps.items() if not step.code] == []


@pytest.fixture
def salt(layout, monkeypatch):
    """Return what deploys a Salt tree for pins that a test may change, and what it wrote."""
    pins = [catalog.load(ROOT, "default")]
    write_whole(layout.closure("node"), "[]\n")
    write_whole(layout.receipt("_debian_closure:node"), '{"outputs": {}, "facts": {}}')

    def deploy():
        here = dataclasses.replace(
            context.load(ROOT, {"BUILD_ROOT": "out/b", "CACHE_ROOT": "out/c"}),
            layout=layout,
            catalog=pins[0],
        )
        step = salt_tree_tasks._deploy(here)
        namespace = namespace_of(layout.build, lambda: [step.task()])
        assert run_doit(ROOT, namespace, step.name).status == 0
        return (layout.salt_tree / salt_tree.VERSIONS).read_text()

    return pins, deploy


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("redhat_releases", lambda _pins: ("7",)),
        ("redhat_repositories", lambda _pins: (types.SimpleNamespace(name="new"),)),
        ("pulled_images", lambda _pins: (types.SimpleNamespace(name="pulled", tag="9.9"),)),
        ("images", lambda pins: pins.images[1:]),
        ("packages", lambda pins: pins.packages[1:]),
    ],
)
def test_versions_follow_the_pins(salt, field, change):
    """Whatever of the pins ``versions.json`` is made of makes it anew."""
    pins, deploy = salt
    repository = types.SimpleNamespace(name="first")
    pins[0] = dataclasses.replace(pins[0], redhat_repositories=(repository,))
    before = deploy()
    assert deploy() == before
    pins[0] = dataclasses.replace(pins[0], **{field: change(pins[0])})
    assert deploy() != before
