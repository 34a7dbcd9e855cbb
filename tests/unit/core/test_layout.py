from pathlib import Path

import pytest

from buildchain.core.layout import Layout


def test_everything_is_below_its_root(layout: Layout):
    checkout = {"pins", "salt_sources"}
    cache = {"store", "go_cache", "compiled_cache", "conformance_cache", "development_key"}
    cache |= {"made_cache", "publication"}
    properties = [n for n, value in vars(Layout).items() if isinstance(value, property)]
    assert properties
    for name in properties:
        path = getattr(layout, name)
        base = layout.root if name in checkout else layout.cache if name in cache else layout.build
        assert base in path.parents, name


def test_named_paths(layout: Layout):
    build = layout.build
    assert layout.package("etcd") == build / "packages" / "etcd"
    assert layout.image("etcd", "3.4") == build / "images" / "etcd" / "3.4"
    assert layout.closure("base") == build / "closures" / "base.json"
    assert layout.iso == build / "demo.iso"
    assert layout.package_sources("etcd") == layout.root / "packages" / "etcd"
    assert layout.image_sources("etcd") == layout.root / "images" / "etcd"


@pytest.mark.parametrize(
    ("step", "file"),
    [
        ("_iso_build", "iso_build.json"),
        ("_image_build:pause", "image_build.pause.json"),
        ("_build_packages:kubernetes:pkg_rpm", "build_packages.kubernetes.pkg_rpm.json"),
    ],
)
def test_receipt_names(layout: Layout, step, file):
    assert layout.receipt(step) == Path(layout.build / "receipts" / file)
