"""Small releases that are whole, who publishes and who fetches them."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from buildchain.publication import address, fetch, index, release, trust
from buildchain.publication.publish import Publisher
from buildchain.publication.trust import Trust
from buildchain.signatures.signing import Signer

EPOCH = 1700000000
ISO = b"medium of %s\n" * 2000


def make_release(folder: Path, version: str, signer: Signer, *, bases=(), **more) -> Path:
    """Write a release folder as ``./doit.sh release`` does."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = {
        f"demo-{version}.iso": ISO % ((version.encode(),) * 2000),
        f"demo-{version}.spdx.json": b"{}\n",
        f"demo-{version}-changelog.md": f"# {version}\n".encode(),
        **more,
    }
    rows = []
    for name, content in sorted(files.items()):
        (folder / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        rows.append({"file": name, "kind": "x", "size": len(content), "sha256": digest})
    record = {"schema": 1, "name": "Demo", "version": version, "commit": "a" * 40,
              "date": EPOCH, "artefacts": rows}  # fmt: skip
    if bases:
        record["bases"] = list(bases)
    (folder / "release.json").write_text(json.dumps(record))
    sign(folder, signer)
    return folder


def sign(folder: Path, signer: Signer) -> None:
    """Write the list of a folder anew, and sign it."""
    lists = ("SHA256SUM", "SHA256SUM.sig")
    files = sorted(path for path in folder.iterdir() if path.name not in lists)
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in files]
    (folder / "SHA256SUM").write_text("".join(lines))
    signer.sign(folder / "SHA256SUM", folder / "SHA256SUM.sig", epoch=EPOCH)


class World:
    """A place (a folder), who publishes there and who fetches from there."""

    def __init__(self, folder: Path, signer: Signer) -> None:
        self.folder, self.signer = folder, signer
        folder.mkdir()
        self.place, self.build = folder / "place", folder / "release"
        self.got = folder / "got"
        self.key = signer.export(folder / "keys", "demo")[0]
        self.publisher_memory = folder / "publisher"
        self.reader_memory = folder / "reader"
        self.to = self.source = str(self.place)

    def release(self, version: str = "2.4.0", **more) -> Path:
        return make_release(self.build, version, self.signer, **more)

    def publisher(self, **options) -> Publisher:
        target = address.target(self.to, self.folder)
        belief = Trust((self.key,), self.publisher_memory)
        return Publisher(target, belief, self.signer, "demo", **options)

    def publish(self, channel: str = "candidate", **options) -> None:
        """Publish what was built."""
        self.publisher(**options).publish(
            self.build, release.read(self.build, (self.key,)), channel
        )

    def released(self, *versions: str, channel: str = "candidate", **more) -> None:
        """Build and publish several versions."""
        for version in versions:
            self.release(version, **more)
            self.publish(channel)

    def fetch(self, what: str = "candidate", output: Path | None = None, **wishes) -> str:
        belief = Trust((self.key,), self.reader_memory)
        place = address.source(self.source, self.folder)
        return fetch.fetch(place, belief, fetch.Wish(what, **wishes), output or self.got)

    def index(self) -> index.Index:
        """Return the index as it is there, proved to be signed."""
        belief = Trust((self.key,), self.folder / "nobody")
        found = belief.read(address.source(self.source, self.folder))
        assert found is not None
        return found[0]

    def channels(self) -> dict[str, list[str]]:
        found = self.index().releases
        return {
            channel: [entry.version for entry in found if channel in entry.channels]
            for channel in index.CHANNELS
        }

    def rewrite(self, change, signer: Signer | None = None, *, by_text=False) -> None:
        """Change the index in the place's folder and sign it."""
        path = self.place / "releases.json"
        if by_text:
            content = change(path.read_bytes())
        else:
            document = json.loads(path.read_bytes())
            change(document)
            content = json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"
        path.write_bytes(content)
        name = trust.signature_name(hashlib.sha256(content).hexdigest())
        (self.place / name).write_bytes(trust.sign(signer or self.signer, content, EPOCH))


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
