"""Images pulled from a registry, served again from the tree of the ISO by the ISO's nginx."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.images import registry
from buildchain.project import config
from buildchain.project.model import PulledImage
from buildchain.pulls import fetch
from tests.integration.conftest import ROOT, Registry, serving
from tests.registries import faulty, image_set

pytestmark = pytest.mark.integration
SIGNATURE = "application/vnd.example.signature"


@pytest.fixture(scope="module")
def pulled(
    nginx_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Registry, dict[str, str]]]:
    """An index of two platforms, one with a signature, and its digests."""
    scratch = tmp_path_factory.mktemp("pulled")
    layout = Layout(ROOT, scratch / "build", scratch / "cache", "demo")
    with faulty.serving() as source:
        digests = image_set.put_index(source.add, "org/multi", "amd64", "arm64")
        document, blobs = image_set.oci(
            "signature", "amd64", subject=digests["amd64"], kind=SIGNATURE
        )
        digests["signature"] = source.add("org/multi", "", document, blobs)
        source.referring[digests["amd64"]] = [
            {"mediaType": image_set.OCI[0], "digest": digests["signature"], "size": len(document)}
        ]
        pin = PulledImage(
            "org/multi",
            f"{source.address}/org/multi:1.0",
            digests[""],
            "1.0",
            ("all",),
            referrers=True,
            aliases=("org/multi:latest",),
        )
        facts = fetch.fetch(
            layout, [pin], config.load(ROOT, {"PLAIN_HTTP_REGISTRIES": source.address})
        ).facts
    made_by = layout.receipt("_image_pull:org/multi")
    receipt.write(made_by, layout.build, fetch.lay_out(layout, pin, facts["org/multi"]))
    made = registry.generate(layout, "1.0", [made_by])
    parts = {"images": layout.images, "registry-config.inc": made.paths[0]}
    for folder in (scratch, layout.build, *scratch.parents[:2]):
        folder.chmod(0o755)
    with serving(nginx_image, scratch, registry.place("1.0"), parts) as served:
        served.wait("org/multi", "1.0")
        yield served, digests


@pytest.mark.parametrize("how", ["1.0", "latest", "digest"])
def test_a_pulled_index_is_served(
    pulled: tuple[Registry, dict[str, str]], tmp_path: pathlib.Path, how: str
) -> None:
    served, digests = pulled
    reference = served.reference("org/multi", digests[""] if how == "digest" else how)
    served.inside(
        *("skopeo", "--insecure-policy", "copy", "--quiet", "--all", "--preserve-digests"),
        *("--src-tls-verify=false", reference, f"dir:{tmp_path}"),
    )
    assert image_set.digest((tmp_path / "manifest.json").read_bytes()) == digests[""]
    below = {image_set.digest(path.read_bytes()) for path in tmp_path.glob("?*.manifest.json")}
    assert below == {digests["amd64"], digests["arm64"]}


def test_what_refers_to_a_pulled_image_is_found(pulled: tuple[Registry, dict[str, str]]) -> None:
    served, digests = pulled
    place = f"http://{served.address}/v2/{served.prefix}/org/multi"
    told = json.loads(served.inside("curl", "-sf", f"{place}/referrers/{digests['amd64']}"))
    assert [(one["digest"], one["artifactType"]) for one in told["manifests"]] == [
        (digests["signature"], SIGNATURE)
    ]
    tags = json.loads(served.inside("curl", "-sf", f"{place}/tags/list"))
    assert tags == {"name": f"{served.prefix}/org/multi", "tags": ["1.0", "latest"]}
    content = served.inside("curl", "-sf", f"{place}/manifests/{digests['signature']}")
    assert image_set.digest(content.encode()) == digests["signature"]
