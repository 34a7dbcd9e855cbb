"""The pages themselves: what they tell to type, name, link to and quote is there."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.manual import documents
from buildchain.project import catalog
from buildchain.proof import document_check
from buildchain.proof.medium_check import Check
from buildchain.salt_tree import deployment
from tests.documents import blocks, declared, session
from tests.documents.blocks import Block
from tests.documents.declared import Declared, Typed
from tests.unit.mounted import Memory

ROOT = Path(__file__).resolve().parents[2]
PAGES = blocks.pages(ROOT)
FIRST_SCREEN = 24  # lines
CHECKOUT = Layout(ROOT, ROOT / "_build", ROOT / "_build", "metalk8s")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
SOURCES = ("buildchain/", "docs/", "images/", "packages/", "salt/", "tests/")
TASK = re.compile(r"\./doit\.sh(?: -\S+(?: \d+| json)?+)*+((?: setup)? [_a-z][\w:]+)")
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


# -- how blocks are found --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("", []),
        ("# A #\n```sh\nls\n```\n", [Block("p", 2, "A", "sh", "ls\n")]),
        ("1. x\n\n   ~~~ sh  \n     ls\n ```\n   ~~~~\n", [Block("p", 3, "", "sh", "  ls\n```\n")]),
        ("````text\n# no heading\n```\n````\n", [Block("p", 1, "", "text", "# no heading\n```\n")]),
        ("```\n```\n#no\n## B\n```x y\n```", [Block("p", 1, "", "", ""),
                                             Block("p", 5, "B", "x", "")]),
        ("`` `sh` `` and ```code``` in a line\n", []),
    ],
)  # fmt: skip
def test_parse(page, found):
    assert list(blocks.parse("p", page)) == found


def test_a_block_without_an_end():
    with pytest.raises(ValueError, match=r"^p:2: the block has no end"):
        list(blocks.parse("p", "x\n```sh\nls\n"))


LINE = st.text(alphabet="ab `~#$\\|>-.é", max_size=12)
PART = st.tuples(
    st.sampled_from(["```", "~~~", "`````"]),
    st.integers(0, 4),
    st.sampled_from(["", "sh", "text"]),
    st.lists(LINE.filter(lambda line: not re.fullmatch(r" *[`~]{3,} *", line)), max_size=4),
)


@given(st.lists(PART, max_size=4))
def test_what_was_written_is_read(parts):
    """Blocks of any content come out as they went in, whatever fence and indentation they have."""
    lines, expected = [], []
    for number, (fence, width, language, inside) in enumerate(parts):
        lines += [f"# {number}", ""]
        whole = "".join(f"{line}\n" for line in inside)
        expected.append(Block("p", len(lines) + 1, str(number), language, whole))
        indented = [f"{' ' * width}{line}" for line in (fence + language, *inside, fence)]
        lines += [*indented, "between"]
    assert list(blocks.parse("p", "\n".join(lines))) == expected


@given(st.text(alphabet="`~# \nsh", max_size=60))
def test_any_page_is_read_or_refused(page):
    try:
        found = list(blocks.parse("p", page))
    except ValueError:
        return
    for block in found:
        assert page.split("\n")[block.line - 1].strip().startswith(("```", "~~~"))


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("ls\n\n# why\ncd x  # there\n", ["ls", "cd x  # there"]),
        ("a && \\\n  b\n", ["a && \\\n  b"]),
        ("a |\n  b\n", ["a |\n  b"]),
        ("cat <<'END'\n$x\nEND\nls\n", ["cat <<'END'\n$x\nEND", "ls"]),
        ("for x in a; do\n  echo $x\ndone\n", ["for x in a; do\n  echo $x\ndone"]),
        ("echo 'a\nb'\n", ["echo 'a\nb'"]),
    ],
)
def test_commands(script, found):
    assert blocks.commands(Block("p", 1, "", "sh", script)) == found


@pytest.mark.parametrize("script", ["if x\n", "cat <<END\n", "ls )\n", "a \\\n", "echo 'a\n"])
def test_what_is_no_command(script):
    with pytest.raises(ValueError, match=r"^p:1: no end, or no shell command: "):
        blocks.commands(Block("p", 1, "", "sh", script))


def test_comment_is_no_part_of_a_command():
    assert blocks.bare("ls a#b   # all") == "ls a#b"


# -- how they are declared -------------------------------------------------------------------------
def test_every_block_is_declared():
    """Each has one way to be run, and each exception is about a command that is there."""
    assert list(declared.problems(ROOT, declared.load(), blocks.read(ROOT))) == []


def of(run="node", heading="H", **more):
    return {"p.md": [Declared(heading, run, **more)]}


@pytest.mark.parametrize(
    ("table", "block", "problem"),
    [
        (of(), Block("p.md", 1, "H", "", "ls\n"), "p.md:1: a block needs a language"),
        (of(), Block("p.md", 1, "H", "bash", "ls\n"), "p.md:1: a block needs a language"),
        ({}, Block("p.md", 1, "H", "sh", "ls\n"), "has blocks below [], the page below ['H']"),
        (of(heading="G"), Block("p.md", 1, "H", "sh", "ls\n"), "below ['G'], the page below ['H']"),
        (of(), Block("q.md", 1, "H", "sh", "ls\n"), "p.md: blocks.toml has blocks below ['H']"),
        (of("moon"), Block("p.md", 1, "H", "sh", "ls\n"), "moon is none of builder, node"),
        (
            of(not_run={"rm": "x"}),
            Block("p.md", 1, "H", "sh", "ls\n"),
            "excepts 'rm', which is not",
        ),
        (of(until={"rm": "x"}), Block("p.md", 1, "H", "sh", "ls\n"), "excepts 'rm', which is not"),
        (
            of(elsewhere={"ls": "tests/unit/test_documents.py::test_gone"}),
            Block("p.md", 1, "H", "sh", "ls\n"),
            "'ls' is not run by tests/unit/test_documents.py::test_gone",
        ),
        (
            of(elsewhere={"./doit.sh fly": ".ci/run"}),
            Block("p.md", 1, "H", "sh", "./doit.sh fly\n"),
            "'./doit.sh fly' is not run by .ci/run",
        ),
    ],
)
def test_problems(table, block, problem):
    found = list(declared.problems(ROOT, table, [block]))
    assert any(problem in line for line in found), found


def test_a_key_that_there_is_not(tmp_path):
    (tmp_path / "t.toml").write_text('[["p.md"]]\nheading = "H"\nrun = "node"\nruns = "x"\n')
    with pytest.raises(TypeError, match="runs"):
        declared.load(tmp_path / "t.toml")


def test_what_is_not_run_is_short():
    """Each is a promise that nobody checks: whoever adds one is asked why here."""
    left_out = [
        command
        for entries in declared.load().values()
        for entry in entries
        for command in entry.not_run
    ]
    assert sorted(left_out) == [
        "./doit.sh bench:bootstrap",
        "./doit.sh bench:cluster",
        "./doit.sh lock",
        "./doit.sh setup iso",
        "./doit.sh setup vagrant_up",
        "./doit.sh vagrant_restore",
        "./doit.sh vagrant_up",
        "./doit.sh vagrant_up",
        "vagrant destroy -f",
        "vagrant ssh bootstrap -c 'kubectl get nodes'",
        "vagrant ssh bootstrap -c 'sudo ssh -i /etc/metalk8s/pki/salt-bootstrap vagrant@node1 id'",
        "vagrant ssh node1 -- ip -4 address",
        "vagrant up node1 --provision",
    ]


# -- how they are run ------------------------------------------------------------------------------
def run(*typed):
    script = session.script(Typed(*words) for words in typed)
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    return session.verdict("p.md", done.returncode, done.stdout)


def test_a_session_keeps_its_state(tmp_path):
    assert run((f"cd {tmp_path}",), ("x=1",), (f'[ "$PWD$x" = {tmp_path}1 ]',)) == ""


@pytest.mark.parametrize("command", ["false", "false && true", "exit 3", "no-such-program"])
def test_the_command_that_fails_is_named(command):
    said = run(("echo 'before'",), (command,), ("echo after",))
    assert said.startswith(f"p.md: this fails: {command}\n")
    assert "before" not in said


def test_what_goes_on_is_waited_for(monkeypatch):
    assert run(("{ echo ready; exec sleep 30; }   # until Ctrl-C", "ready"), ("kill $!",)) == ""
    monkeypatch.setattr(session, "PATIENCE", 1)
    assert "this fails: echo no\n" in run(("echo no", "ready"))


# -- what the pages name ---------------------------------------------------------------------------
@pytest.fixture(scope="module")
def tasks():
    found = {"clean", "graph", "help", "info", "list", "tabcompletion"}  # commands
    for profile in ("default", "upstream"):
        listed = subprocess.run(
            [sys.executable, "-m", "doit", "list", "--all", "--private", "--quiet"],
            cwd=ROOT, capture_output=True, text=True, check=True,
            env={**os.environ, "PROFILE": profile},
        )  # fmt: skip
        found |= {line.strip() for line in listed.stdout.splitlines()}
    return found


def test_tasks_exist(tasks):
    """Of every `./doit.sh …`, also in sentences and tables."""
    named = {
        (page, task)
        for page in PAGES
        for words in TASK.findall(text(page))
        for task in words.split()
    }
    assert len(named) > 30
    assert {(page, task) for page, task in named if task not in tasks} == set()


@pytest.mark.parametrize("script", ["apply-update.sh", "bootstrap.sh", "verify.sh"])
def test_options_exist(script):
    there = (ROOT / "salt/scripts" / script).read_text(encoding="utf-8")
    known = set(OPTION.findall(there))
    for page in PAGES:
        for line in text(page).splitlines():
            if f"/{script} " in line or f"`{script} " in line:
                found = set(OPTION.findall(line.partition(script)[2].partition("`")[0]))
                assert found <= known, f"{page}: {line}"


def test_files_exist():
    """Of the sources; what the medium has below `salt` is below `salt/states` here."""
    for page in PAGES:
        for name in CODE.findall(text(page)):
            if name.startswith(SOURCES) and re.fullmatch(r"[\w./-]+", name):
                places = [ROOT / name, ROOT / "salt/states" / name.removeprefix("salt/")]
                assert any(place.exists() for place in places), f"{page}: {name}"


def slug(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_links_lead_somewhere():
    for page in PAGES:
        for target in document_check.links(page, text(page)):
            assert (ROOT / target).exists(), f"{page}: {target}"
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text(page)):
            there = text((ROOT / page).parent / target) if target else text(page)
            assert anchor in map(slug, re.findall(r"(?m)^#+ (.*)$", there)), f"{page}: #{anchor}"


def test_the_manual_is_closed():
    """On the medium, where it is alone with the licence and the changes."""
    inside = ("docs", "CHANGELOG.md", "LICENSE")
    for page in PAGES:
        for target in document_check.links(page, text(page)) if page.startswith("docs/") else ():
            assert target.partition("/")[0] in inside, f"{page}: {target}"


@pytest.mark.parametrize("page", PAGES)
def test_no_merge_was_left_half_done(page):
    """No linter of ours reads Markdown for what git leaves where two changes meet."""
    assert re.findall(r"(?m)^(?:<{7}|\|{7}|>{7})(?: .*)?$", text(page)) == []


def test_the_medium_has_every_page_that_is_named():
    """By pages, scripts and states, as `check` finds it; and every page can be found."""
    pages = {path.relative_to(ROOT).as_posix(): path for path in documents.sources(CHECKOUT)}
    files = {name: path.read_bytes() for name, path in pages.items()}
    for path in receipt.sources(deployment.folders(CHECKOUT)):
        area, *rest = path.relative_to(ROOT / "salt").parts
        files[(Path(deployment.PLACES[area]) / Path(*rest)).as_posix()] = path.read_bytes()
    check = Check(Memory(files), {}, {})
    document_check.follow(check)
    wanted = check.wanted.files
    assert "bootstrap.sh" in wanted["docs/how-to/verify-a-medium.md"]
    assert wanted.keys() - files.keys() == set()
    assert pages.keys() - wanted.keys() == {"docs/README.md"}


def test_the_first_screen_says_which_kubernetes():
    first = "\n".join(text("README.md").splitlines()[:FIRST_SCREEN])
    [kubernetes] = [p for p in catalog.load(ROOT, "default").packages if p.name == "kubernetes"]
    assert f"**{kubernetes.version}**" in first
    assert "support ended" in first


def test_nothing_of_the_medium_is_run_before_it_was_verified():
    """On every page: `gpgv` and `sha256sum` come before the first command that names a mount."""
    for page, entries in declared.load().items():
        typed = [
            c.command for c in declared.to_run({page: entries}, page, "node", blocks.read(ROOT))
        ]
        if not any(command.startswith("mount ") for command in typed):
            continue
        [check] = [n for n, c in enumerate(typed) if c.startswith("gpgv ") and "sha256sum -c" in c]
        assert "--keyring ./metalk8s.gpg" in typed[check]
        assert not any("/mnt" in command for command in typed[:check]), page
    for page in PAGES:
        mounts = set(re.findall(r"mount -o loop,ro \S+ (\S+)", text(page)))
        assert mounts <= {"/mnt"}, f"{page}: mounted at one place everywhere"


# -- what the pages quote --------------------------------------------------------------------------
def said():
    """Return what programs of ours say, sentences put together as Python does."""
    found = []
    for path in [*ROOT.glob("buildchain/**/*.py"), *ROOT.glob("salt/scripts/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    found += [path.read_text(encoding="utf-8") for path in ROOT.glob("salt/scripts/*.sh")]
    return "\n".join([*found, text("doit.sh")])


def test_messages_are_quoted_as_they_are():
    """Each piece between two `…` stands in a message of ours, but for what other programs say."""
    messages = said()
    errors = {node.name for node in ast.walk(ast.parse(text("buildchain/core/errors.py")))
              if isinstance(node, ast.ClassDef)}  # fmt: skip
    rows = re.findall(r"(?m)^\| `([^`]+)` \|", text("docs/how-to/troubleshoot.md"))
    theirs = ("gpgv: ", "metalk8s.iso: ", "kubectl", "x509: ")
    ours = [row for row in rows if not row.startswith(theirs)]
    assert len(ours) > 20
    for row in ours:
        name, _, rest = row.partition(": ")
        if name in errors:
            row = rest
        row = re.sub(r"^(bootstrap|verify|doit)\.sh: (error: )?", "", row)
        for piece in filter(None, (piece.strip(' :;(),."') for piece in row.split("…"))):
            # A number may be a value in the source.
            assert piece in messages or re.sub(r"\d+", "…", piece) in messages, row
