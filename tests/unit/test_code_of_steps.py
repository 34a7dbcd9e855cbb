"""What decides a step's result is told to doit: its settings and the code that makes it."""

import dataclasses
import dis
import functools
import inspect
import itertools
import sys
import types

import pytest

from buildchain.core.receipt import Made, write_whole
from buildchain.project import catalog, context
from buildchain.salt_tree import deployment
from buildchain.salt_tree import steps as salt_tree
from tests.conftest import ROOT
from tests.unit.running import namespace_of, run_doit

# What everything stands on. That another version of it makes something else shows in all tests.
GROUND = ("core", "project", "store")
# They bring things there or name what is built; what comes out does not depend on how.
MEANS = {"buildchain.machine.engine", "buildchain.inputs.archive"}


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


def room_of(module):
    """Return the room of a module, or nothing when it is none of ours."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "buildchain" else ""


def modules_of(function, room, seen):
    """Yield the modules of other rooms that a function names, itself or through its room's."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if room_of(function.__module__) != room:
        yield function.__module__
        return
    if function in seen:
        return
    seen.add(function)
    for named in named_by(function):
        if isinstance(named, types.ModuleType):
            yield named.__name__
        elif isinstance(named, types.FunctionType | functools.partial):
            yield from modules_of(named, room, seen)


def named_by(function):
    """Yield what a function takes from its module and from the functions around it.

    Of a module of the same room it is what is taken out of that.
    """
    yield from (cell.cell_contents for cell in function.__closure__ or ())
    for code in codes(function.__code__):
        for one, following in itertools.pairwise(dis.get_instructions(code)):
            if one.opname == "LOAD_GLOBAL":
                named = function.__globals__.get(one.argval)
                own = getattr(named, "__name__", "").startswith(f"{package_of(function)}.")
                if isinstance(named, types.ModuleType) and own:
                    named = getattr(named, str(following.argval), None)
                yield named


def package_of(function):
    return function.__module__.rpartition(".")[0]


def counts(module):
    """Tell whether what a module says can change what comes out."""
    steps = module.endswith(".steps")  # of another room: names of its steps, and where things are
    return room_of(module) not in ("", *GROUND) and not steps and module not in MEANS


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
    wrong = {}
    for name, step in steps.items():
        room = room_of(module_of(step.action))
        named = set(filter(counts, modules_of(step.action, room, set())))
        if missing := named - {module.__name__ for module in step.code}:
            wrong[name.partition(":")[0]] = sorted(missing)
    assert wrong == {}
    for step in steps.values():
        room = ROOT / "buildchain" / room_of(module_of(step.action))
        assert set(room.glob("*.py")) <= set(step.sources()), step.name


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
        step = salt_tree._deploy(here)
        namespace = namespace_of(layout.build, lambda: [step.task()])
        assert run_doit(ROOT, namespace, step.name).status == 0
        return (layout.salt_tree / deployment.VERSIONS).read_text()

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
