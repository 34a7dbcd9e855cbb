import dataclasses
import json

import pytest

from buildchain.core.errors import FetchError, SigningError
from buildchain.project import config
from buildchain.project.model import PulledImage
from buildchain.pulls import fetch
from buildchain.store.blobs import Store
from tests.registries import faulty, image_set


@pytest.fixture
def served():
    with faulty.serving() as found:
        for image, document, blobs in image_set.content(1 / 40000):
            found.add(image.name, image.tag, document, blobs)
        yield found


@pytest.fixture
def settings(layout, served):
    """Return the settings of a build that may talk to the registry of the test."""
    folder = layout.root / "buildchain" / "pins" / "default"
    folder.mkdir(parents=True)
    (folder / "profile.toml").touch()
    return config.load(layout.root, {"PLAIN_HTTP_REGISTRIES": served.address})


def pin(served: faulty.Faulty, name: str, **more: object) -> PulledImage:
    digest = image_set.digest(served.manifests[name, "1.0"])
    return PulledImage(name, f"{served.address}/{name}:1.0", digest, **more)


def lay_out(layout, settings, *images: PulledImage):
    facts = fetch.fetch(layout, images, settings).facts
    return [fetch.lay_out(layout, image, facts[image.name]) for image in images]


def names(folder) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_a_manifest_becomes_a_folder_of_links(layout, served, settings):
    image = pin(served, "org/daemon-1", aliases=("other:2.0",))
    (made,) = lay_out(layout, settings, image)
    folder = layout.images / "org" / "daemon-1" / "1.0"
    assert made.paths == (folder, layout.images / "other" / "2.0")
    assert (folder / "manifest.json").read_bytes() == served.manifests["org/daemon-1", "1.0"]
    assert (folder / "version").read_text() == "Directory Transport Version: 1.1\n"
    blobs = [name for name in names(folder) if name not in ("manifest.json", "version")]
    store = Store(layout.store)
    for place in made.paths:
        assert names(place) == names(folder)
        for name in blobs:
            assert (place / name).samefile(store.path(name))
    assert made.digests == {
        **{place / name: name for place in made.paths for name in blobs},
        **{place / "manifest.json": image.digest[7:] for place in made.paths},
    }
    assert made.facts == {"name": image.name, "version": "1.0", "digest": image.digest[7:]}


def test_an_index_and_what_refers_to_it_become_an_oci_layout(layout, served, settings):
    digests = image_set.put_index(served.add, "multi", "amd64", "arm64")
    document, blobs = image_set.oci("sbom", "x", subject=digests["arm64"], kind="application/sbom")
    sbom = served.add("multi", "", document, blobs)
    served.referring[digests["arm64"]] = [
        {"mediaType": image_set.OCI[0], "digest": sbom, "size": len(document)}
    ]
    signature, more = image_set.oci("cosign", "x")
    tag = f"{digests[''].replace(':', '-')}.sig"
    signed = served.add("multi", tag, signature, more)

    (made,) = lay_out(layout, settings, pin(served, "multi", platforms=("all",), referrers=True))
    folder = layout.images / "multi" / "1.0"
    assert json.loads((folder / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    entries = json.loads((folder / "index.json").read_text())["manifests"]
    name = "org.opencontainers.image.ref.name"
    assert [(e["digest"], e.get("annotations", {}).get(name)) for e in entries] == [
        (digests[""], "1.0"), (signed, tag), (sbom, None),
    ]  # fmt: skip
    there = {p.name for p in (folder / "blobs" / "sha256").iterdir()}
    assert {digest[7:] for digest in (*digests.values(), sbom, signed)} < there
    for path in (folder / "blobs" / "sha256").iterdir():
        assert image_set.digest(path.read_bytes()) == f"sha256:{path.name}"
        assert made.digests[path] == path.name


def test_same_pins_same_tree(layout, served, settings, tmp_path):
    images = [pin(served, "static-1"), pin(served, "org/daemon-2")]
    lay_out(layout, settings, *images)
    first = {p: p.read_bytes() for p in layout.images.rglob("*") if p.is_file()}
    other = dataclasses.replace(layout, cache=tmp_path / "other")
    lay_out(other, settings, *reversed(images))
    assert first == {p: p.read_bytes() for p in layout.images.rglob("*") if p.is_file()}


def test_without_the_registry_once_all_is_here(layout, served, settings):
    image = pin(served, "static-1")
    lay_out(layout, settings, image)
    served.fault = lambda _request: "403"
    lay_out(layout, settings, image)


def test_a_helper_gives_the_login(layout, served, settings, fake_program, tmp_path):
    served.scheme = "basic"
    served.login = "user:pass"
    auth = tmp_path / "auth.json"
    auth.write_text(json.dumps({"credHelpers": {served.address: "x"}}))
    settings = dataclasses.replace(settings, registry_auth_file=auth)
    fake_program("docker-credential-x", output='{"Username": "user", "Secret": "pass"}')
    lay_out(layout, settings, pin(served, "static-1"))
    fake_program("docker-credential-x", status=1)
    with pytest.raises(FetchError, match="wants a login and there is none"):
        lay_out(layout, settings, pin(served, "static-2"))


def test_mirrors_of_the_settings(layout, served, settings):
    settings = dataclasses.replace(
        settings, registry_mirrors=(f"r.example=http://{served.address}/org",)
    )
    image = dataclasses.replace(pin(served, "org/daemon-1"), reference="r.example/daemon-1:1.0")
    lay_out(layout, settings, image)


def test_the_policy_is_skopeos_to_judge(layout, served, settings, fake_program, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text("{}")
    settings = dataclasses.replace(settings, signature_policy=policy, binaries={"skopeo": "skopeo"})
    fake_program("skopeo")
    fake = fake_program
    image = pin(served, "static-1")
    fetch.fetch(layout, [image], settings)
    (argv,) = fake.calls("skopeo")
    assert argv[0] == f"--policy={policy}"
    assert f"docker://{served.address}/static-1@{image.digest}" in argv
    fake_program("skopeo", output="x\nlevel=fatal msg=no signature\n", status=1)
    with pytest.raises(
        SigningError, match=r"does not allow 1 of 1 images: static-1: .*no signature"
    ):
        fetch.fetch(layout, [image], settings)
    assert not list(layout.store.glob("policy-*"))
