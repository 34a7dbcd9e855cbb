import dataclasses
import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from buildchain.bill import bill, cyclonedx, spdx
from buildchain.core.errors import ContentError
from buildchain.project.model import DebianFile, Image, Package, PulledImage, RedhatFile

SHA = {
    name: f"{number:064x}" for number, name in enumerate(["deb", "rpm", "own", "layer", "m", "x"])
}
DEB = DebianFile("libc6", "2:2.36-9+deb12u9", "amd64", "libc6_2.deb", 1, SHA["deb"])
INSIDE = dataclasses.replace(DEB, name="etcd-server", sha256="e" * 64)
RPM = RedhatFile("zlib", 1, "1.2", "3.el9", "x86_64", "zlib.rpm", 1, SHA["rpm"], "baseos")
PACKAGE = Package("salt", "3008.2", "1", (), ("metalk8s-salt", "metalk8s-salt-minion"),
                  ("metalk8s-salt", "metalk8s-salt-minion"))  # fmt: skip
IMAGE = Image("etcd", "3.4", "etcd", "Apache-2.0 OR MIT",
              packages=("metalk8s-salt",), binaries=("salt/salt-call",))  # fmt: skip
PULLED = PulledImage("org/app", "registry.example/app:1", f"sha256:{'9' * 64}")
FILES = {
    "product.txt": SHA["x"],
    "salt/a b/é.sls": SHA["x"],
    "packages/debian/metalk8s/pool/main/libc6_2.36_amd64.deb": SHA["deb"],
    "packages/debian/metalk8s/pool/main/metalk8s-salt_3008.2-1_amd64.deb": SHA["own"],
    "packages/debian/metalk8s/pool/main/metalk8s-salt-minion_3008.2-1_amd64.deb": SHA["own"],
    "packages/redhat/metalk8s-el9/zlib.rpm": SHA["rpm"],
    "packages/redhat/metalk8s-el9/metalk8s-salt-3008.2-1.x86_64.rpm": SHA["own"],
    "packages/redhat/metalk8s-el9/repodata/repomd.xml": SHA["x"],
    "images/etcd/3.4/manifest.json": SHA["m"],
    "images/etcd/3.4/0000": SHA["layer"],
    "images/org/app/1/manifest.json": SHA["layer"],
}


def made(**changes):
    contents = {
        "files": FILES,
        "debian": [DEB],
        "redhat": [RPM],
        "packages": [PACKAGE],
        "images": {IMAGE: [DEB, INSIDE]},
        "pulled": [PULLED],
        "wheels": {"salt": {"PyYAML-6.0-cp311.whl": "7" * 64, "a_b-1.0.tar.gz": "8" * 64}},
        "licenses": {"salt": "Apache-2.0 AND MIT"},
        **changes,
    }
    return bill.make("Demo", "2.9.0", 1700000000, bill.Contents(**contents))


def by_name(found):
    return {component.file or component.name: component for component in found.components}


def test_every_file_is_a_component():
    found = by_name(made())
    assert found.keys() >= FILES.keys()
    assert {found[path].sha256 for path in FILES} == set(FILES.values())


def test_packages_are_known_by_what_they_are():
    found = by_name(made())
    purls = {name: component.purl for name, component in found.items() if component.purl}
    pool, el9 = "packages/debian/metalk8s/pool/main", "packages/redhat/metalk8s-el9"
    assert purls == {
        f"{pool}/libc6_2.36_amd64.deb": "pkg:deb/debian/libc6@2%3A2.36-9%2Bdeb12u9?arch=amd64",
        f"{pool}/metalk8s-salt_3008.2-1_amd64.deb": "pkg:deb/metalk8s/metalk8s-salt@3008.2-1",
        f"{pool}/metalk8s-salt-minion_3008.2-1_amd64.deb":
            "pkg:deb/metalk8s/metalk8s-salt-minion@3008.2-1",
        f"{el9}/zlib.rpm": "pkg:rpm/baseos/zlib@1%3A1.2-3.el9?arch=x86_64",
        f"{el9}/metalk8s-salt-3008.2-1.x86_64.rpm": "pkg:rpm/metalk8s/metalk8s-salt@3008.2-1",
        "libc6": "pkg:deb/debian/libc6@2%3A2.36-9%2Bdeb12u9?arch=amd64",
        "etcd-server": "pkg:deb/debian/etcd-server@2%3A2.36-9%2Bdeb12u9?arch=amd64",
        "PyYAML": "pkg:pypi/pyyaml@6.0",
        "a_b": "pkg:pypi/a-b@1.0",
        "salt": "pkg:generic/metalk8s/salt@3008.2-1",
        "etcd": f"pkg:oci/etcd@sha256%3A{SHA['m']}?tag=3.4",
        "org/app": f"pkg:oci/app@sha256%3A{'9' * 64}?tag=1",
    }  # fmt: skip


def test_what_is_inside():
    found = by_name(made())
    refs = {component.ref for component in found.values()}
    pool = "packages/debian/metalk8s/pool/main"
    assert len(found[f"{pool}/metalk8s-salt_3008.2-1_amd64.deb"].contains) == 2
    assert found[f"{pool}/metalk8s-salt-minion_3008.2-1_amd64.deb"].contains == ()
    assert set(found["etcd"].contains) == {
        found["images/etcd/3.4/manifest.json"].ref,
        found["images/etcd/3.4/0000"].ref,
        found["libc6"].ref,
        found["etcd-server"].ref,
        found["salt"].ref,
        found[f"{pool}/metalk8s-salt_3008.2-1_amd64.deb"].ref,
    }
    assert all(inside in refs for component in found.values() for inside in component.contains)


def test_licenses_are_said_where_they_are_known():
    found = by_name(made())
    assert found["product.txt"].license == "Apache-2.0"
    assert found["etcd"].license == "Apache-2.0 OR MIT"
    assert found["images/etcd/3.4/0000"].license == ""
    assert found["libc6"].license == ""


def test_licenses_of_others_in_the_manual():
    scripts = {f"docs/html/_static/{name}.js": SHA["x"] for name in ("doctools", "language_data")}
    found = by_name(made(files={**FILES, **scripts, "docs/html/index.html": SHA["x"]}))
    assert found["docs/html/_static/doctools.js"].license == "BSD-2-Clause"
    both = found["docs/html/_static/language_data.js"].license
    assert both == "BSD-2-Clause AND BSD-3-Clause"
    assert found["docs/html/index.html"].license == "Apache-2.0"


def test_names_of_documents_are_unique():
    refs = [component.ref for component in made().components]
    assert len(refs) == len(set(refs))
    assert bill.ref("file", "a-b") != bill.ref("file", "a/b") != bill.ref("file", "a_b")


def test_spdx():
    found = json.loads(spdx.document(made()))
    assert found["spdxVersion"] == "SPDX-2.3"
    names = {package.get("packageFileName", "")[2:] for package in found["packages"]} - {""}
    assert names == set(FILES)
    assert found["creationInfo"]["created"] == "2023-11-14T22:13:20Z"


def test_cyclonedx():
    text = cyclonedx.document(made())
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found = json.loads(text)
    places = {
        entry["value"] for part in found["components"] for entry in part.get("properties", ())
    }
    assert places == set(FILES)


@pytest.mark.parametrize("document", [spdx.document, cyclonedx.document])
def test_the_same_bill_gives_the_same_bytes(document):
    first = document(made())
    assert document(made(files=dict(reversed(FILES.items())))) == first
    assert document(made(files={**FILES, "product.txt": "5" * 64})) != first


def test_what_is_no_spdx_is_refused():
    with pytest.raises(ContentError, match="the SPDX document of Demo is not valid") as caught:
        spdx.document(made(files={"product.txt": "short"}))
    assert "64 lowercase hexadecimal digits" in caught.value.details


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda found: found.packages.append(found.packages[-1]), "2 parts are called SPDXRef-"),
        (lambda found: found.packages.pop(), "nothing is called SPDXRef-"),
        (lambda found: setattr(found.packages[-1], "spdx_id", "SPDXRef-a_b"), "is no SPDX id"),
        (lambda found: setattr(found.creation_info, "document_namespace", "x"), "namespace"),
    ],
    ids=["twice", "missing", "its name", "where it was made"],
)
def test_what_spdx_would_refuse(change, problem):
    """The library's judgement of the whole, which takes long with many parts, is the same."""
    found = spdx._document(made())
    assert (spdx._problems(found), validate_full_spdx_document(found)) == ([], [])
    change(found)
    assert problem in " ".join(spdx._problems(found))
    # It does not mind a name that is there twice.
    assert validate_full_spdx_document(found) or problem.startswith("2 parts")
