"""Trees that lie, and that change while ``verify.sh`` reads them: it never says that they are fine.

``METALK8S_LIES`` says how many are tried (the soak: 10000).
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buildchain.core import listing
from buildchain.core.listing import Entry

LIES = int(os.environ.get("METALK8S_LIES", "40"))
CHANGED, EXTRA = 12, 14
# Legal, and made to be misread: words of MANIFEST and of what the script's programs print.
NAMES = (
    "f",
    "d",
    "a",
    "0",
    "0644",
    " x",
    "x ",
    "-rf",
    "a b  c",
    "*",
    "ü",
    "./.",
    "$HOME",
    "d 0755",
)
# Programs that read the tree; each can be the moment at which somebody exchanges something.
PROGRAMS = ("gpgv", "cat", "find", "openssl", "xargs")
SIGNATURE = b"MANIFEST.sig"
SWAPPER = """\
#!/bin/sh
echo >>{state}/{name}.calls
if [ "$(wc -l <{state}/{name}.calls)" -eq {call} ]; then
    (cd {tree} && . {state}/lie) 2>/dev/null
fi
exec {program} "$@"
"""


@dataclasses.dataclass(frozen=True)
class Moment:
    """When a lie comes true: before anything, or at some call of a program."""

    program: str = ""
    call: int = 1


class Media:
    """Signed trees, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "gnupg"
        self.home.mkdir(mode=0o700)
        self.gpg = ["gpg", "--homedir", str(self.home), "--batch", "--quiet"]
        make = ["--passphrase", "", "--quick-gen-key", "Demo", "ed25519", "sign", "never"]
        subprocess.run([*self.gpg, *make], check=True, capture_output=True)
        self.key = folder / "key.gpg"
        subprocess.run([*self.gpg, "--output", self.key, "--export"], check=True)
        self.trees = [self._make(random.Random(seed), folder / str(seed)) for seed in range(6)]

    def _make(self, rng: random.Random, root: Path) -> Path:
        root.mkdir()
        folders = [root]
        for name in rng.sample(NAMES, 8):
            path = rng.choice(folders) / name.replace("/", "_")
            if rng.random() < 0.3:
                path.mkdir()
                folders.append(path)
            else:
                path.write_bytes(rng.randbytes(rng.choice([0, 1, 7, 7, 70])))
        for path in (root, *root.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        entries = [entry(path, root) for path in root.rglob("*")]
        text = listing.text({"name": "Demo", "version": "2.9.0"}, entries)
        manifest = root / listing.NAME
        manifest.write_text(text)
        signature = [*self.gpg, "--output", f"{manifest}.sig", "--detach-sign", str(manifest)]
        subprocess.run(signature, check=True)
        for name in (manifest, manifest.with_name("MANIFEST.sig")):
            name.chmod(0o644)
        return root


def entry(path: Path, root: Path) -> Entry:
    name, content = path.relative_to(root).as_posix(), b"" if path.is_dir() else path.read_bytes()
    mode = stat.S_IMODE(path.stat().st_mode)
    if path.is_dir():
        return Entry(name, "-", "d", mode, 0)
    return Entry(name, hashlib.sha256(content).hexdigest(), "f", mode, len(content))


def contents(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Return everything that a tree shows, by its name in bytes; nothing is followed."""
    found: dict[bytes, tuple[object, ...]] = {}
    for path in root.rglob("*"):
        mode = path.lstat().st_mode
        content = path.read_bytes() if stat.S_ISREG(mode) else b""
        found[bytes(path.relative_to(root))] = (mode, content)
    return found


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Media]:
    """Return the signed trees."""
    made = Media(tmp_path_factory.mktemp("media"))
    yield made
    subprocess.run(["gpgconf", "--homedir", made.home, "--kill", "all"], check=True)


ODD = st.text(st.sampled_from("\n\t\r\x01\x1b\x7f\\ax /"), min_size=1, max_size=6)
FORGED = st.sampled_from(
    [
        "x\nB\tf 644 0 0 0 0\ty",
        "x\nf 644 0 0 0 0 0\ty",
        "\nF\t644 a",
        "x\n" + "0" * 64 + " f 0644 0 y",
        "a\n./a",
        "\\",
        "MANIFEST\n",
        "\nMANIFEST.sig",
    ]
)
NEW = st.one_of(ODD, FORGED, st.sampled_from(["evil", ".evil", "-n", "MANIFEST.bak"])).map(
    lambda name: name.replace("/", "_")
)


@st.composite
def lies(draw: st.DrawFn, tree: Path) -> str:
    """Give a line of shell that changes a tree of that kind, run in it."""
    there = sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*"))
    old = shlex.quote(f"./{draw(st.sampled_from(there))}")
    other = shlex.quote(f"./{draw(st.sampled_from(there))}")
    new = shlex.quote(f"./{draw(NEW)}")
    beside = shlex.quote(f"../outside-{draw(st.integers(0, 9))}")
    lines = [
        f"echo evil >{new}",
        f"mkdir {new}; echo evil >{new}/x",
        f"cp -a {old} {new}",
        f"ln {old} {new}",
        f"rm -rf {old}",
        f"mv {old} {new}",
        f"mv {old} t; mv {other} {old}; mv t {other}",
        f"mv {old} {beside}; ln -s {beside} {old}",
        f"cp -a {old} {beside}; rm -rf {old}; ln -s ../{beside} {old}",
        f"rm -rf {old}; mkfifo -m 644 {old}",
        f"echo evil >>{old}",
        f"tr '\\000-\\377' '\\001-\\377\\000' <{old} >t; cat t >{old}; rm t",
        f"chmod 666 {old}",
        f"chmod 4755 {old}",
        f"chmod 777 .; chmod 777 {old}",
        f"cp -a MANIFEST {beside}; ln -sf {beside} MANIFEST",
        f"cp -a MANIFEST.sig {beside}; ln -sf {beside} MANIFEST.sig",
        "sed -i 's/2[.]9/2.8/' MANIFEST; echo '- d 0755 0 evil' >>MANIFEST; mkdir -m 755 evil",
        'cp -a . ../copy; echo evil >../copy/evil; mv "$PWD" ../old; mv ../copy ../medium',
        ":",
    ]
    return draw(st.sampled_from(lines))


MOMENTS = st.one_of(
    st.just(Moment()),
    st.builds(Moment, st.sampled_from(PROGRAMS), st.integers(1, 3)),
)


def swapper(folder: Path, tree: Path, lie: str, moment: Moment) -> dict[str, str]:
    """Return the environment in which a program does something else first."""
    (folder / "lie").write_text(lie)
    found = shutil.which(moment.program)
    assert found
    words = {"name": moment.program, "call": moment.call, "program": found}
    program = folder / moment.program
    program.write_text(SWAPPER.format(state=folder, tree=tree, **words))
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@settings(
    max_examples=LIES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_lying_trees(media, root, tmp_path_factory, data):
    """Exit 0 means that each name, type, mode and byte is what was signed, also afterwards."""
    original = data.draw(st.sampled_from(media.trees), label="tree")
    lines = data.draw(st.lists(lies(original), min_size=1, max_size=2), label="lie")
    # A pipe comes last: another line of shell might read it.
    lie = "\n".join(sorted(lines, key=lambda line: "mkfifo" in line))
    # Who reads a pipe waits for somebody to write: nothing is accepted, and nothing ends.
    moment = data.draw(st.just(Moment()) if "mkfifo" in lie else MOMENTS, label="moment")
    folder = tmp_path_factory.mktemp("lie")
    tree = folder / "medium"
    shutil.copytree(original, tree)
    environment = dict(os.environ)
    if moment.program:
        environment = swapper(folder, tree, lie, moment)
    else:
        subprocess.run(["sh", "-c", lie], cwd=tree, check=False, capture_output=True)
    argv = ["sh", root / "salt/scripts/verify.sh", "--jobs", "2", "--key", media.key, tree]
    done = subprocess.run(argv, env=environment, capture_output=True, check=False, timeout=60)
    # Two lies about the tree as a whole may leave none.
    found, wanted = contents(tree) if tree.exists() else {}, contents(original)
    mode = tree.stat().st_mode if tree.exists() else 0
    shutil.rmtree(folder)
    assert done.returncode in range(16), done.stderr
    if done.returncode == 0:
        # What comes after a good signature is of no meaning.
        found.pop(SIGNATURE), wanted.pop(SIGNATURE)
        assert found == wanted, done.stdout
    elif not moment.program:
        assert found != wanted or stat.S_IMODE(mode) != 0o755, done.stderr
    assert not set(done.stderr) & set(b"\1\t\r\x1b\x7f"), "a name is no way to write to a terminal"


@pytest.mark.parametrize(
    ("lie", "status", "words"),
    [
        (
            "echo evil >'x\ny'",
            EXTRA,
            "extra      x?y (a control character or backslash in the name)",
        ),
        ("mkdir 'x\n'; echo evil >'x\n/y'", EXTRA, "extra      x?/y (a control"),
        ("printf x >'\33[2J'", EXTRA, "extra      ?[2J (a control"),
        ("echo evil >'a\\b'", EXTRA, "extra      a\\b (a control"),
        ("mv MANIFEST ../m; ln -s ../m MANIFEST", CHANGED, "MANIFEST is a symbolic link"),
        (
            "mv MANIFEST.sig ../m; ln -s ../m MANIFEST.sig",
            CHANGED,
            "MANIFEST.sig is a symbolic link",
        ),
        ("chmod 777 .", CHANGED, "changed    . (mode 777: others may write to it)"),
        ("chmod 664 MANIFEST", CHANGED, "changed    MANIFEST (mode 664: others may write to it)"),
    ],
)
def test_what_is_said_of_lies(media, root, tmp_path, lie, status, words):
    tree = tmp_path / "medium"
    shutil.copytree(media.trees[0], tree)
    subprocess.run(["sh", "-c", lie], cwd=tree, check=True)
    argv = ["sh", root / "salt/scripts/verify.sh", "--key", media.key, tree]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, words in done.stderr) == (status, True), done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("call", [1, 2])
def test_a_file_that_is_exchanged(media, root, tmp_path, program, call):
    """At whatever program it happens, the medium is refused."""
    tree = tmp_path / "medium"
    shutil.copytree(media.trees[0], tree)
    victim = shlex.quote(next(str(p) for p in sorted(tree.iterdir()) if p.stat().st_size == 7))
    lie = f"cp -a {victim} ../new; printf 'evil!!!' >../new; mv ../new {victim}"
    environment = swapper(tmp_path, tree, lie, Moment(program, call))
    argv = ["sh", root / "salt/scripts/verify.sh", "--jobs", "1", "--key", media.key, tree]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    counter = tmp_path / f"{program}.calls"
    calls = len(counter.read_text()) if counter.exists() else 0
    assert contents(tree) != contents(media.trees[0]) or calls < call
    assert (done.returncode != 0) == (calls >= call), done.stdout + done.stderr


def test_a_file_of_somebody_else(media, root, tmp_path, fake_program):
    """What another user owns, that user can exchange when nobody looks any more."""
    fake_program("id", output=f"{os.getuid() + 1}\n")
    if os.getuid() == 0:
        owner = 65534
        fake_program("id", output="0\n")
    tree = tmp_path / "medium"
    shutil.copytree(media.trees[0], tree)
    if os.getuid() == 0:
        os.chown(tree / "MANIFEST", owner, owner)
    argv = ["sh", root / "salt/scripts/verify.sh", "--key", media.key, tree]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == CHANGED
    assert "changed    MANIFEST (owner " in done.stderr
    assert "who is not root)" in done.stderr
