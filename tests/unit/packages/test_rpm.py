import pytest

from buildchain.core.errors import PinError
from buildchain.packages import rpm

SPEC = """\
%global upstream 1.0.2
Name:           demo
Version:        1.0
Release:        3
Summary:        A demonstration
License:        MIT
Source0:        https://example.invalid/demo_%{upstream}.tar.gz
Source1:        demo.service
Patch0:         0001-fix.patch

%description
Text.

%package -n demo-client
Summary: Client

%description -n demo-client
Text.
"""


def write(tmp_path, text):
    path = tmp_path / "demo.spec"
    path.write_text(text, encoding="utf-8")
    return path


def test_read_spec(tmp_path):
    assert rpm.read_spec(write(tmp_path, SPEC)) == rpm.Spec(
        name="demo",
        version="1.0",
        release="3",
        sources=("demo_1.0.2.tar.gz", "demo.service"),
        patches=("0001-fix.patch",),
        packages=("demo", "demo-client"),
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("Name:           demo\n", "", "no name"),
        ("Version:        1.0\n", "", "no version"),
        ("Release:        3\n", "", "no release"),
        ("%global upstream 1.0.2\n", "", "macro without a value in Source"),
    ],
)
def test_incomplete_spec(tmp_path, old, new, problem):
    path = write(tmp_path, SPEC.replace(old, new))
    with pytest.raises(PinError, match=problem) as caught:
        rpm.read_spec(path)
    assert str(path) in caught.value.reason


def test_spec_without_sources(tmp_path):
    text = "".join(line for line in SPEC.splitlines(True) if not line.startswith("Source"))
    with pytest.raises(PinError, match="no Source line"):
        rpm.read_spec(write(tmp_path, text))


def test_missing_spec(tmp_path):
    with pytest.raises(PinError, match=r"none\.spec: No such file"):
        rpm.read_spec(tmp_path / "none.spec")


def test_specs_of_the_checkout(root):
    for path in sorted(root.glob("packages/*/*.spec")):
        assert rpm.read_spec(path).name == path.parent.name
