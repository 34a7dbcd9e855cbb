"""The pins agree with what they are made from."""

import re

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from buildchain.packages import bundles

LOCKED = re.compile(r"^(?P<name>[a-zA-Z0-9._-]+)==(?P<version>\S+) \\$", re.MULTILINE)


def test_the_salt_package_is_what_the_states_are_tested_with(root):
    text = (root / "salt" / "requirements.txt").read_text(encoding="utf-8")
    left_out = {
        canonicalize_name(line)
        for line in (root / "packages/salt/left-out.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    }
    locked = {
        (canonicalize_name(match["name"]), match["version"]) for match in LOCKED.finditer(text)
    }
    assert left_out <= {name for name, _ in locked}
    files = bundles.read_wheels(root / "packages/salt/wheels.sha256")
    shipped = set()
    for file, digest in files.items():
        parse = parse_wheel_filename if file.endswith(".whl") else parse_sdist_filename
        name, version, *_ = parse(file)
        shipped.add((name, str(version)))
        assert f"--hash=sha256:{digest}" in text, file
    assert shipped == {(name, version) for name, version in locked if name not in left_out}
