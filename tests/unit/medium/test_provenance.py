import json
import subprocess

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from buildchain.medium import provenance
from buildchain.medium.provenance import Origin
from buildchain.signatures import signing
from tests.unit.medium.test_iso import EPOCH

COMMIT = "ab" * 20
INPUTS = {"11" * 32: "b.deb", "22" * 32: "a.deb"}
ORIGIN = Origin(COMMIT, "2.9.0-0-gababab", {"PROFILE": "default", "SOURCE_DATE_EPOCH": 5}, INPUTS)


def read(origin=ORIGIN):
    return json.loads(provenance.statement("demo.iso", "cd" * 32, origin))


def test_it_is_what_in_toto_and_slsa_say():
    """The libraries refuse a field they do not know."""
    document = read()
    parsed = json_format.ParseDict(document, statement_pb2.Statement())
    Statement.copy_from_pb(parsed).validate()
    predicate = json_format.ParseDict(document["predicate"], provenance_pb2.Provenance())
    assert predicate.build_definition.build_type == provenance.BUILD_TYPE
    assert predicate.run_details.builder.id == provenance.BUILDER
    assert document["predicateType"] == "https://slsa.dev/provenance/v1"
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict({**document["predicate"], "more": 1}, provenance_pb2.Provenance())


def test_subject_and_materials():
    document = read()
    assert document["subject"] == [{"name": "demo.iso", "digest": {"sha256": "cd" * 32}}]
    assert document["predicate"]["buildDefinition"]["resolvedDependencies"] == [
        {"name": "commit 2.9.0-0-gababab", "digest": {"gitCommit": COMMIT}},
        {"name": "a.deb", "digest": {"sha256": "22" * 32}},
        {"name": "b.deb", "digest": {"sha256": "11" * 32}},
    ]


@pytest.mark.parametrize(
    ("commit", "description"), [(COMMIT, "2.9.0-0-gababab-dirty"), ("unknown", "unknown")]
)
def test_what_is_in_no_commit_has_no_digest(commit, description):
    source = read(Origin(commit, description, {}, {}))
    [material] = source["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert material == {"name": f"commit {description}"}


def test_it_is_signed(keyed, require):
    image = keyed.build / "demo.iso"
    keys = signing.export_public_key(keyed, "").paths
    with signing.signer(keyed, "") as signer:
        made = provenance.write(image, "cd" * 32, ORIGIN, signer, EPOCH)
    path, signature = made.paths
    argv = [require("gpgv"), "--keyring", keys[0], signature, path]
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 0
    before = [path.read_bytes() for path in made.paths]
    with signing.signer(keyed, "") as signer:
        provenance.write(image, "cd" * 32, ORIGIN, signer, EPOCH)
    assert [path.read_bytes() for path in made.paths] == before
