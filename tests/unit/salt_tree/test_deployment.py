import json

import pytest

from buildchain.core import receipt
from buildchain.project import catalog
from buildchain.salt_tree import deployment
from tests.unit.images.test_build import closure


@pytest.fixture
def prepared(layout):
    for name, mode in {
        "states/top.sls": 0o644,
        "states/metalk8s/x.sls": 0o600,
        "states/_modules/__pycache__/x.pyc": 0o644,
        "pillar/top.sls": 0o644,
        "scripts/bootstrap.sh": 0o700,
        "requirements.txt": 0o644,
    }.items():
        path = layout.salt_sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(mode)
    closure(layout, "node", ("runc", "1.1-1"), ("libc6", "2:2"))
    return layout


def test_deploy(prepared, root):
    pins = catalog.load(root, "default")
    (prepared.salt_tree / "stale").mkdir(parents=True)
    made = deployment.deploy(prepared, pins, receipt.sources(deployment.folders(prepared)))
    assert made.paths == (prepared.salt_tree,)
    found = {
        path.relative_to(prepared.salt_tree).as_posix(): f"{path.stat().st_mode & 0o777:o}"
        for path in prepared.salt_tree.rglob("*")
        if path.is_file()
    }
    assert found == {
        "salt/top.sls": "644",
        "salt/metalk8s/x.sls": "644",
        "salt/metalk8s/versions.json": "644",
        "pillar/top.sls": "644",
        "bootstrap.sh": "755",
    }


def test_versions(prepared, root):
    pins = catalog.load(root, "default")
    versions = deployment.versions(prepared, pins)
    assert versions["metalk8s"] == {"version": pins.version.full}
    debian = versions["packages"]["debian"]
    assert debian["runc"] == {"version": "1.1-1"}
    for package in pins.packages:
        assert versions[package.name] == {"version": package.version}
        for name in package.debs:
            assert debian[name] == {"version": f"{package.version}-{package.release}"}
        for name in package.rpms:
            assert versions["packages"]["redhat"][name]["release"] == package.release
    assert set(versions["images"]) == {image.name for image in pins.images}
    json.dumps(versions)
