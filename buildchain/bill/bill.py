"""The bill of materials: everything on a medium, and what is inside of it.

A component is a file of the medium, or something in one: Debian packages in images, Python
distributions in packages. Licences are said where the build knows them: of what we package and
build, and of our own files. Written by :mod:`.spdx` and :mod:`.cyclonedx`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import posixpath
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from buildchain.project.model import DebianFile, Image, Package, PulledImage, RedhatFile

FILE, PACKAGE, IMAGE = "file", "package", "image"
OUR_LICENSE = "Apache-2.0"  # of the files of this repository
# Of what others wrote of the manual as HTML; its page `license.html` has them whole.
THEIR_LICENSES = {
    **{
        f"docs/html/_static/{name}": "BSD-2-Clause"  # Sphinx
        for name in (
            "basic.css",
            "doctools.js",
            "pygments.css",
            "searchtools.js",
            "sphinx_highlight.js",
        )
    },
    "docs/html/_static/language_data.js": "BSD-2-Clause AND BSD-3-Clause",  # and Snowball
}
DEBIAN, OURS = "debian", "metalk8s"


@dataclass(frozen=True)
class Component:
    """One thing.

    :param ref: its name in the documents: unique, of letters, digits, ``.`` and ``-``.
    :param purl: package URL, or empty for files.
    :param sha256: of the file or of the image's manifest; empty where there is none.
    :param license: SPDX expression, or empty where nobody here knows it.
    :param file: place on the medium, or empty: it is inside of others.
    :param contains: refs of what is inside.
    """

    ref: str
    kind: str
    name: str
    version: str = ""
    purl: str = ""
    sha256: str = ""
    license: str = ""
    file: str = ""
    contains: tuple[str, ...] = ()

    @property
    def is_on_medium(self) -> bool:
        """Tell whether it lies there by itself; else it is only inside of others."""
        return bool(self.file) or self.kind == IMAGE


@dataclass(frozen=True)
class Bill:
    """What a medium consists of.

    :param epoch: date of the documents, seconds since 1970.
    """

    name: str
    version: str
    epoch: int
    components: tuple[Component, ...]

    @property
    def identity(self) -> str:
        """Return what no other bill has: a digest of all it says."""
        text = json.dumps([dataclasses.asdict(component) for component in self.components])
        words = f"{self.name} {self.version} {self.epoch} {text}"
        return hashlib.sha256(words.encode()).hexdigest()


@dataclass(frozen=True)
class Contents:
    """What a build knows of the things on its medium.

    :param files: place on the medium to SHA-256.
    :param images: images we build, with the Debian packages inside.
    :param wheels: Python distributions by the name of the package they are in.
    :param licenses: of what we package, by its name, as its spec says.
    """

    files: Mapping[str, str]
    debian: Sequence[DebianFile]
    redhat: Sequence[RedhatFile]
    packages: Sequence[Package]
    images: Mapping[Image, Sequence[DebianFile]]
    pulled: Sequence[PulledImage]
    wheels: Mapping[str, Mapping[str, str]]
    licenses: Mapping[str, str]


def make(name: str, version: str, epoch: int, contents: Contents) -> Bill:
    """Return the bill of a medium."""
    found: dict[str, Component] = {}
    known: dict[str, DebianFile | RedhatFile] = {}
    known |= {file.sha256: file for file in contents.debian}
    known |= {file.sha256: file for file in contents.redhat}
    for inside in contents.images.values():
        for file in inside:
            _add(found, _debian(file, ""))
    for listed in contents.wheels.values():
        for wheel, digest in listed.items():
            _add(found, _wheel(wheel, digest))
    for path, digest in contents.files.items():
        _add(found, _file(path, digest, known.get(digest), contents))
    for package in contents.packages:
        _add(found, _compiled(package, contents.licenses.get(package.name, "")))
    for image, inside in contents.images.items():
        blobs = _below(contents.files, f"images/{image.name}/{image.version}/")
        refs = (*blobs, *(_debian(file, "").ref for file in inside), *_of_ours(found, image))
        manifest = contents.files.get(f"images/{image.name}/{image.version}/manifest.json", "")
        _add(found, _image(image.name, image.version, manifest, image.licenses, refs))
    for pulled in contents.pulled:
        blobs = _below(contents.files, f"images/{pulled.name}/{pulled.tag}/")
        digest = pulled.digest.removeprefix("sha256:")
        _add(found, _image(pulled.name, pulled.tag, digest, "", blobs))
    return Bill(name, version, epoch, tuple(found[ref] for ref in sorted(found)))


def _compiled(package: Package, license_expression: str) -> Component:
    """Return what a package compiles, which images may have without the package around it."""
    version = f"{package.version}-{package.release}"
    name = ref("compiled", package.name, version)
    purl = f"pkg:generic/{OURS}/{_quoted(package.name)}@{_quoted(version)}"
    return Component(name, PACKAGE, package.name, version, purl, license=license_expression)


def _of_ours(found: Mapping[str, Component], image: Image) -> tuple[str, ...]:
    """Return what we compile or package that is in an image."""
    compiled = {binary.partition("/")[0] for binary in image.binaries}
    prefixes = (f"pkg:generic/{OURS}/", f"pkg:deb/{OURS}/")
    return tuple(
        component.ref
        for component in found.values()
        for names, prefix in zip((compiled, set(image.packages)), prefixes, strict=True)
        if component.name in names and component.purl.startswith(prefix)
    )


def _add(found: dict[str, Component], component: Component) -> None:
    found.setdefault(component.ref, component)


def ref(*words: str) -> str:
    """Return a name that documents may have."""
    text = "-".join(words)
    return "".join(
        c if c.isascii() and (c.isalnum() or c == ".") else f"-{ord(c):x}-" for c in text
    )


def _below(files: Iterable[str], folder: str) -> tuple[str, ...]:
    return tuple(ref("file", path) for path in sorted(files) if path.startswith(folder))


def _debian(file: DebianFile, place: str) -> Component:
    purl = f"pkg:deb/{DEBIAN}/{_quoted(file.name)}@{_quoted(file.version)}?arch={file.architecture}"
    name = ref("file", place) if place else ref("deb", file.name, file.version, file.architecture)
    return Component(name, PACKAGE, file.name, file.version, purl, file.sha256, file=place)


def _wheel(file: str, digest: str) -> Component:
    name, version = file.removesuffix(".tar.gz").split("-")[:2]
    purl = f"pkg:pypi/{_quoted(name.lower().replace('_', '-'))}@{_quoted(version)}"
    return Component(ref("pypi", name, version), PACKAGE, name, version, purl, digest)


def _image(
    name: str, version: str, digest: str, license_expression: str, refs: tuple[str, ...]
) -> Component:
    purl = f"pkg:oci/{_quoted(posixpath.basename(name))}@sha256%3A{digest}?tag={_quoted(version)}"
    return Component(
        ref("image", name, version), IMAGE, name, version, purl, digest, license_expression,
        contains=refs,
    )  # fmt: skip


def _file(
    path: str, digest: str, known: DebianFile | RedhatFile | None, contents: Contents
) -> Component:
    """Return what a file of the medium is: a package, or only a file."""
    if isinstance(known, DebianFile):
        return _debian(known, path)
    if isinstance(known, RedhatFile):
        name, revision = known.name, known.revision
        purl = f"pkg:rpm/{_quoted(known.repository)}/{_quoted(name)}@{_quoted(revision)}"
        purl += f"?arch={known.architecture}"
        return Component(ref("file", path), PACKAGE, name, revision, purl, digest, file=path)
    for package in contents.packages if path.endswith((".deb", ".rpm")) else ():
        for name in (*package.debs, *package.rpms):
            if path.rpartition("/")[2].startswith((f"{name}_", f"{name}-{package.version}-")):
                return _ours(path, digest, package, name, contents)
    is_ours = not path.startswith(("images/", "packages/"))
    license_expression = THEIR_LICENSES.get(path, OUR_LICENSE) if is_ours else ""
    return Component(ref("file", path), FILE, path, "", "", digest, license_expression, path)


def _ours(path: str, digest: str, package: Package, name: str, contents: Contents) -> Component:
    """Return a package that we make; Python distributions are in the first of its kind."""
    version = f"{package.version}-{package.release}"
    purl = f"pkg:{path[-3:]}/{OURS}/{_quoted(name)}@{_quoted(version)}"
    listed = contents.wheels.get(package.name, {})
    is_first = name in (package.debs[0], package.rpms[0])
    inside = tuple(_wheel(*wheel).ref for wheel in listed.items()) if is_first else ()
    license_expression = contents.licenses.get(package.name, "")
    return Component(
        ref("file", path), PACKAGE, name, version, purl, digest, license_expression, path, inside
    )


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe=".-_~")
