"""A run that does all it can without signatures, and says in one message what it waits for."""

import pytest

from buildchain.core import report
from buildchain.core.errors import BuildError, WaitingError
from buildchain.core.receipt import Made
from buildchain.core.step import Step, title
from tests.unit.running import namespace_of, run_doit


@pytest.fixture
def run(layout, root):
    def call(*argv, fails=False, goes_on=True, there=False):
        def wait(name):
            if not there:
                raise WaitingError.of({f"1.{name}": name, f"2.{name}": name})
            return Made()

        def alone():
            if fails:
                raise BuildError("it is bad", solution="Make it good.")
            return Made()

        def tasks():
            steps = [
                Step(layout, "_one", title("SIGN", "one"), lambda: wait("first")),
                Step(layout, "_two", title("SIGN", "two"), lambda: wait("second")),
                Step(layout, "_after", title("MAKE", "after"), Made, needs=("_one",)),
                Step(layout, "_alone", title("MAKE", "alone"), alone),
            ]
            yield from (step.task() for step in steps)
            names = [step.name for step in steps]
            yield {"basename": "group", "actions": None, "task_dep": names}

        namespace = namespace_of(layout.build, tasks)
        namespace["DOIT_CONFIG"]["continue"] = goes_on
        return run_doit(root, namespace, *argv)

    return call


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_one_message_and_a_status_of_its_own(run, workers):
    result = run(*workers, "group")
    assert result.status == report.WAITS == 75
    assert sorted(result.marked("??")) == ["one", "two"]
    assert result.marked("**") == []
    assert result.executed == ["alone"], "all the rest is done"
    assert result.out.count("WaitingError") == 1
    assert "4 signatures are made elsewhere and not here yet: first, second" in result.out
    assert "sign_request" in result.out
    assert "transcript" not in result.out
    assert "Unmet" not in result.out
    assert "_after" not in result.out


def test_signed_it_goes_on(run):
    run("group")
    result = run("group", there=True)
    assert result.status == 0
    assert sorted(result.executed) == ["after", "one", "two"]


def test_what_fails_beside_is_a_failure(run):
    result = run("group", fails=True)
    assert result.status not in (0, report.WAITS)
    assert "it is bad" in result.out
    assert result.marked("**") == ["alone", "group"]
    assert "4 signatures are made elsewhere" in result.out


def test_what_depends_on_a_failure_is_told(run):
    result = run("group", fails=True, there=True)
    assert result.status == 2
    assert result.out.count("it is bad") == 1
    assert "\ngroup\n_alone" in result.out


def test_one_signature():
    assert str(WaitingError.of({"x": "a"})) == "1 signature is made elsewhere and not here yet: a"
