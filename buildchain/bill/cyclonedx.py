"""A bill of materials as CycloneDX 1.6 (JSON)."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from buildchain.bill.bill import FILE, IMAGE, Bill, Component

if TYPE_CHECKING:
    from cyclonedx.model.component import Component as Model

ROOT = "medium"
PLACE = "metalk8s:file"  # property: where it is on the medium


def document(bill: Bill) -> str:
    """Return the document."""
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component as Model
    from cyclonedx.model.component import ComponentType
    from cyclonedx.model.dependency import Dependency
    from cyclonedx.output.json import JsonV1Dot6

    medium = Model(name=bill.name, version=bill.version, type=ComponentType.PLATFORM, bom_ref=ROOT)

    def depends(on: Model, refs: Iterable[str]) -> Dependency:
        return Dependency(on.bom_ref, [Dependency(parts[ref].bom_ref) for ref in refs])

    parts = {component.ref: _component(component) for component in bill.components}
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, bill.identity),
        metadata=BomMetaData(
            component=medium, timestamp=datetime.datetime.fromtimestamp(bill.epoch, datetime.UTC)
        ),
        components=parts.values(),
        # `register_dependency` reads all of them again for each.
        dependencies=[
            depends(medium, [each.ref for each in bill.components if each.is_on_medium]),
            *(depends(parts[each.ref], each.contains) for each in bill.components),
        ],
    )
    text = json.loads(JsonV1Dot6(bom).output_as_string())
    return json.dumps(text, indent=1, sort_keys=True) + "\n"


def _component(component: Component) -> Model:
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.component import Component as Model
    from cyclonedx.model.component import ComponentType
    from cyclonedx.model.license import LicenseExpression
    from packageurl import PackageURL

    types = {FILE: ComponentType.FILE, IMAGE: ComponentType.CONTAINER}
    digest = HashType(alg=HashAlgorithm.SHA_256, content=component.sha256)
    return Model(
        name=component.name,
        version=component.version or None,
        type=types.get(component.kind, ComponentType.LIBRARY),
        bom_ref=component.ref,
        hashes=[digest] if component.sha256 else None,
        licenses=[LicenseExpression(component.license)] if component.license else None,
        purl=PackageURL.from_string(component.purl) if component.purl else None,
        properties=[Property(name=PLACE, value=component.file)] if component.file else None,
    )
