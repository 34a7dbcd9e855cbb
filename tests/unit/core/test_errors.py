import pytest

from buildchain.core import errors


def test_friendly_says_what_and_what_to_do():
    error = errors.ChecksumError("a.tar: expected x, got y", solution="Fetch it again.")
    assert error.friendly() == (
        "ChecksumError: a.tar: expected x, got y\n  What to do: Fetch it again."
    )
    assert str(error) == "a.tar: expected x, got y"


def test_friendly_shows_the_tools_output():
    error = errors.CommandError("cc failed", details="line 1\nline 2", solution="Mend it.")
    assert error.friendly() == (
        "CommandError: cc failed\n\n    | line 1\n    | line 2\n\n  What to do: Mend it."
    )


@pytest.mark.parametrize("kind", errors.BuildError.__subclasses__())
def test_every_kind_has_a_remedy_and_a_docstring(kind):
    assert kind.__doc__
    remedy = kind("x").solution
    assert remedy.endswith(".")
    assert remedy[0].isupper()
