"""A bill of materials as SPDX 2.3 (JSON).

Files are packages of the purpose FILE: as *files* SPDX 2.3 would want a SHA-1 of each.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from buildchain.bill.bill import FILE, IMAGE, Bill, Component
from buildchain.core.errors import ContentError

if TYPE_CHECKING:
    from spdx_tools.spdx.model.document import Document
    from spdx_tools.spdx.model.package import Package
    from spdx_tools.spdx.model.relationship import Relationship

NAMESPACE = "https://metalk8s.invalid/spdx"  # a name, no place: nothing is there
DOCUMENT, ROOT = "SPDXRef-DOCUMENT", "SPDXRef-medium"
SHOWN = 20  # problems


def document(bill: Bill) -> str:
    """Return the document.

    :raises ContentError: it is not valid.
    """
    from spdx_tools.spdx.jsonschema.document_converter import DocumentConverter

    found = _document(bill)
    if problems := _problems(found):
        raise ContentError(
            f"the SPDX document of {bill.name} is not valid: {problems[0]}",
            details="\n".join(problems[:SHOWN]),
        )
    # The converter knows no types.
    converted: Any = DocumentConverter().convert(found)  # type: ignore[no-untyped-call]
    return json.dumps(converted, indent=1, sort_keys=True) + "\n"


def _problems(document: Document) -> list[str]:
    """Say what is not valid.

    The library judges each part. References between parts are checked here, because the library
    reads the whole document again for each of them. The test of the ISO lets it judge all at once.
    """
    from spdx_tools.spdx.validation.creation_info_validator import validate_creation_info
    from spdx_tools.spdx.validation.package_validator import validate_packages
    from spdx_tools.spdx.validation.spdx_id_validators import is_valid_internal_spdx_id

    version = document.creation_info.spdx_version
    messages = [
        *validate_creation_info(document.creation_info, version),
        *validate_packages(document.packages, version),
    ]
    names = Counter([DOCUMENT, *(package.spdx_id for package in document.packages)])
    ends = {
        str(end)
        for relationship in document.relationships
        for end in (relationship.spdx_element_id, relationship.related_spdx_element_id)
    }
    return [
        *(message.validation_message for message in messages),
        *(f"{name} is no SPDX id" for name in names if not is_valid_internal_spdx_id(name)),
        *(f"{number} parts are called {name}" for name, number in names.items() if number > 1),
        *(f"nothing is called {name}" for name in sorted(ends - names.keys())),
    ]


def _document(bill: Bill) -> Document:
    from spdx_tools.spdx.model.actor import Actor, ActorType
    from spdx_tools.spdx.model.document import CreationInfo, Document
    from spdx_tools.spdx.model.package import Package, PackagePurpose
    from spdx_tools.spdx.model.spdx_no_assertion import SpdxNoAssertion

    identity = f"{bill.name}-{bill.version}-{bill.identity}"
    info = CreationInfo(
        spdx_version="SPDX-2.3",
        spdx_id=DOCUMENT,
        name=f"{bill.name}-{bill.version}",
        document_namespace=f"{NAMESPACE}/{identity}",
        creators=[Actor(ActorType.TOOL, "metalk8s-buildchain")],
        created=datetime.datetime.fromtimestamp(bill.epoch, datetime.UTC).replace(tzinfo=None),
    )
    medium = Package(
        ROOT,
        bill.name,
        SpdxNoAssertion(),
        version=bill.version,
        files_analyzed=False,
        primary_package_purpose=PackagePurpose.INSTALL,
    )
    packages = [medium, *map(_package, bill.components)]
    return Document(info, packages=packages, relationships=_relationships(bill))


def _relationships(bill: Bill) -> list[Relationship]:
    from spdx_tools.spdx.model.relationship import Relationship, RelationshipType

    found = [Relationship(DOCUMENT, RelationshipType.DESCRIBES, ROOT)]
    for component in bill.components:
        name = f"SPDXRef-{component.ref}"
        if component.is_on_medium:
            found.append(Relationship(ROOT, RelationshipType.CONTAINS, name))
        found += [
            Relationship(name, RelationshipType.CONTAINS, f"SPDXRef-{inside}")
            for inside in component.contains
        ]
    return found


@functools.cache
def _license(text: str) -> Any:
    from license_expression import get_spdx_licensing

    return get_spdx_licensing().parse(text)


def _package(component: Component) -> Package:
    from spdx_tools.spdx.model.checksum import Checksum, ChecksumAlgorithm
    from spdx_tools.spdx.model.package import (
        ExternalPackageRef,
        ExternalPackageRefCategory,
        Package,
        PackagePurpose,
    )
    from spdx_tools.spdx.model.spdx_no_assertion import SpdxNoAssertion

    purposes = {FILE: PackagePurpose.FILE, IMAGE: PackagePurpose.CONTAINER}
    manager = ExternalPackageRefCategory.PACKAGE_MANAGER
    digest = Checksum(ChecksumAlgorithm.SHA256, component.sha256)
    return Package(
        f"SPDXRef-{component.ref}",
        component.name,
        SpdxNoAssertion(),
        version=component.version or None,
        file_name=f"./{component.file}" if component.file else None,
        files_analyzed=False,
        checksums=[digest] if component.sha256 else [],
        license_declared=_license(component.license) if component.license else SpdxNoAssertion(),
        external_references=(
            [ExternalPackageRef(manager, "purl", component.purl)] if component.purl else []
        ),
        primary_package_purpose=purposes.get(component.kind, PackagePurpose.LIBRARY),
    )
