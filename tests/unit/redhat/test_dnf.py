import json
from pathlib import Path

import pytest

from buildchain.core.errors import FetchError, SigningError
from buildchain.project.model import RedhatFile, RedhatRepository
from buildchain.redhat import dnf

BASEOS = RedhatRepository("BaseOS", "https://mirror.invalid/8", Path("/keys/el.asc"))
OURS = RedhatRepository("metalk8s", "file:///repo", Path("/keys/ours.asc"), is_signed=True)
FILE = RedhatFile(
    name="iptables", epoch=1, version="1.8.5", release="11.el8", architecture="x86_64",
    file="iptables-1.8.5-11.el8.x86_64.rpm", size=7, sha256="a" * 64, repository="BaseOS",
)  # fmt: skip
FAILED = "Failed to download metadata for repo 'BaseOS': "


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/usr/bin/python3\nimport sys\n", ["/usr/bin/python3"]),
        ("#!/usr/libexec/platform-python -s\n", ["/usr/libexec/platform-python", "-s"]),
        ("\x7fELF\x02", []),
        ("", []),
    ],
)
def test_interpreter(script, words):
    assert dnf.parse_interpreter(script) == words


def test_the_solver_reads_nothing_of_the_user():
    argv = dnf.argv_for_solver(["/usr/bin/python3"], Path("/request.json"))
    assert argv == ["/usr/bin/python3", "-I", "-B", dnf.SOLVER, Path("/request.json")]
    assert dnf.SOLVER.is_file()


def test_request():
    text = dnf.request(Path("/state"), "8", [BASEOS], OURS, minimal=("bash",), exactly=[FILE])
    document = json.loads(text)
    assert document["repositories"] == [
        {"name": "BaseOS", "url": "https://mirror.invalid/8", "key": "/keys/el.asc",
         "is_signed": True, "priority": 99},
        {"name": "metalk8s", "url": "file:///repo", "key": "/keys/ours.asc",
         "is_signed": True, "priority": 1},
    ]  # fmt: skip
    assert (document["state"], document["release"]) == ("/state", "8")
    assert document["architecture"] == "x86_64"
    assert document["minimal"] == ["bash"]
    assert RedhatFile(**document["exactly"][0]) == FILE


def test_answers():
    assert dnf.parse_answer("warning: of a library") is None
    assert dnf.parse_answer("42") is None
    assert dnf.parse_answer('{"progress": [1, 3]}') == dnf.Answer(progress=(1, 3))
    line = json.dumps({"packages": [json.loads(json.dumps(FILE.__dict__))]})
    assert dnf.parse_answer(line) == dnf.Answer(packages=(FILE,))
    assert FILE.revision == "1:1.8.5-11.el8"


UNSOLVABLE = """
 Problem 1: conflicting requests
  - nothing provides lib >= 2 needed by app-1-1.noarch
 Problem 2: package web-1-1.noarch requires app, but none of the providers can be installed
  - conflicting requests
  - nothing provides lib >= 2 needed by app-1-1.noarch
"""


@pytest.mark.parametrize(
    ("problem", "kind", "reason"),
    [
        ({"kind": "repository", "text": FAILED + "Cannot download repomd.xml:\n  (7) refused"},
         FetchError, "repository BaseOS (https://mirror.invalid/8) cannot be read: "
         "Cannot download repomd.xml: (7) refused"),
        ({"kind": "repository",
          "text": FAILED + "repomd.xml GPG signature verification error: Bad GPG signature"},
         SigningError, "metadata of the repository BaseOS (https://mirror.invalid/8) are not "
         "signed with /keys/el.asc: repomd.xml GPG signature verification error: "
         "Bad GPG signature"),
        ({"kind": "repository", "text": FAILED + "Cannot download repodata/repomd.xml.asc: 404"},
         SigningError, "metadata of the repository BaseOS (https://mirror.invalid/8) are not "
         "signed with /keys/el.asc: Cannot download repodata/repomd.xml.asc: 404"),
        ({"kind": "repository", "text": "something else"},
         FetchError, "repository BaseOS, metalk8s cannot be read: something else"),
        ({"kind": "missing", "names": ["a", "b"]},
         FetchError, "no package a, b in the repositories BaseOS, metalk8s (for node)"),
        ({"kind": "architecture", "packages": {"a": ["aarch64", "s390x"]}},
         FetchError, "packages for node are not for x86_64: a (aarch64, s390x)"),
        ({"kind": "unsolvable", "text": UNSOLVABLE},
         FetchError, "packages for node cannot be installed: nothing provides lib >= 2 needed by "
         "app-1-1.noarch; package web-1-1.noarch requires app, but none of the providers can be "
         "installed"),
        ({"kind": "unsolvable", "text": "a text of another kind"},
         FetchError, "packages for node cannot be installed: a text of another kind"),
        ({"kind": "download", "text": "a.rpm: 404", "repository": "BaseOS",
          "names": ["a-1", "b-1"]},
         FetchError, "packages for node cannot be downloaded from the repository BaseOS: "
         "a.rpm: 404 (of a-1, b-1)"),
        ({"kind": "checksum", "repository": "BaseOS", "package": "a-1"},
         FetchError, "repository BaseOS gives no SHA-256 for a-1"),
        ({"kind": "elsewhere", "repository": "BaseOS", "url": "https://other.invalid"},
         FetchError, "repository BaseOS redirects package downloads to https://other.invalid"),
    ],
)  # fmt: skip
def test_what_the_solver_refuses_in_words(problem, kind, reason):
    error = dnf.error(problem, "node", [BASEOS, OURS])
    assert (type(error), error.reason) == (kind, reason)
    assert error.solution.endswith(".")


def test_a_refusal_nobody_knows_is_a_bug():
    with pytest.raises(ValueError, match="unheard"):
        dnf.error({"kind": "unheard"}, "node", [])
