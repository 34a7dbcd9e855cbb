"""The root that images stand on."""

from pathlib import Path

import pytest

from buildchain.debian import mmdebstrap


@pytest.mark.parametrize(("as_root", "mode"), [(True, "root"), (False, "unshare")])
def test_mmdebstrap(as_root, mode):
    argv = mmdebstrap.argv_for_root(
        Path("/r"), Path("/k"), "s", ["a", "b"], Path("/o.tar"), as_root=as_root
    )
    assert argv[:5] == ["mmdebstrap", "--variant=minbase", f"--mode={mode}", "--format=tar",
                        "--include=a,b"]  # fmt: skip
    assert argv[-3:] == ["s", Path("/o.tar"), "deb [signed-by=/k] copy:/r s main"]
    hooks = [str(word) for word in argv if str(word).startswith("--customize-hook=")]
    for path in mmdebstrap.USELESS:
        assert any(f' "$1"{path}' in hook for hook in hooks), path
    for path in mmdebstrap.KEPT_FOLDERS:
        assert any("mkdir -p" in hook and f'"$1"{path}' in hook for hook in hooks), path


def test_mmdebstrap_hooks_do_not_leave_the_root(tmp_path):
    """The hooks are shell: run them on a tree and look at what is left."""
    import subprocess

    target = tmp_path / "root"
    for name in ("etc/hostname", "etc/keep", "var/lib/apt/lists/x", "var/log/apt/y"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).touch()
    argv = mmdebstrap.argv_for_root(Path("/r"), Path("/k"), "s", ["a"], Path("/o"), as_root=True)
    for word in argv:
        if str(word).startswith("--customize-hook="):
            hook = str(word).partition("=")[2]
            subprocess.run(["sh", "-euc", hook, "sh", str(target)], check=True)
    assert [p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file()] == [
        "etc/keep"
    ]
    assert (target / "var/lib/apt/lists/partial").is_dir()
