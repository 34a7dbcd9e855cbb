import pytest

from buildchain.packages import build
from buildchain.store.blobs import Store
from tests.unit.packages.demo import DEMO, DIGEST, EPOCH
from tests.unit.packages.test_rpm import SPEC


@pytest.fixture
def prepared(layout):
    """Return a layout with the sources of a package, its pinned file in the store."""
    folder = layout.package_sources("demo")
    for name, text in {
        "demo.spec": SPEC.replace("Patch", "Source9: compile.sh\nPatch", 1),
        "prepare.sh": "prepare",
        "compile.sh": "compile",
        "files/demo.service": "unit",
        "patches/0001-fix.patch": "patch",
        "debian/control": "Source: demo\nBuild-Depends: debhelper, libx-dev (>= 2)\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    blob = Store(layout.store).path(DIGEST)
    blob.parent.mkdir(parents=True)
    blob.write_text("tarball")
    build.make_folders(layout, DEMO)
    return layout


@pytest.fixture
def sourced(prepared):
    build.read_meta(prepared, DEMO)
    build.get_sources(prepared, DEMO, EPOCH)
    return prepared
