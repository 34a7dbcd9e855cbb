"""The list of an ISO's blocks, beside it and signed: ``verify.sh`` repairs a damaged copy by it.

On disk, ``<iso>.blocks``: facts (``#name=value``), then for each portion of the ISO, in its order,
its SHA-256 and those of the blocks that it consists of::

    #volume=MetalK8s 2.4.0
    #sha256=…              of the whole ISO
    #size=457242624        all sizes in bytes
    #block=65536
    #portion=8388608
    P 01ba47…
    B 5891b5…
    B …

The last portion and the last block end where the ISO does. ``salt/scripts/verify.sh`` reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from buildchain.core.errors import ContentError
from buildchain.core.receipt import Made, write_whole
from buildchain.signatures.signing import Signer

SUFFIX = ".blocks"
# A bad sector costs a block; 64 KiB make a list of a thousandth of the ISO.
BLOCK = 64 << 10
# What is read as a whole first: so much that starting programs for it does not count.
PORTION = 8 << 20


def path_of(image: Path) -> Path:
    """Return where the list of an ISO stands."""
    return image.with_name(f"{image.name}{SUFFIX}")


def text(image: Path, volume: str, *, block: int = BLOCK, portion: int = PORTION) -> str:
    """Return the list of an image.

    :param volume: its volume id.
    :param block: bytes.
    :param portion: bytes, a multiple of that.
    """
    assert portion % block == 0
    whole, size, lines = hashlib.sha256(), 0, []
    for content in _portions(image, portion):
        whole.update(content)
        size += len(content)
        lines.append(f"P {hashlib.sha256(content).hexdigest()}")
        view = memoryview(content)
        lines += [
            f"B {hashlib.sha256(view[start : start + block]).hexdigest()}"
            for start in range(0, len(content), block)
        ]
    facts = {
        "volume": volume,
        "sha256": whole.hexdigest(),
        "size": size,
        "block": block,
        "portion": portion,
    }
    head = [f"#{name}={value}" for name, value in facts.items()]
    return "".join(f"{line}\n" for line in (*head, *lines))


def _portions(image: Path, portion: int) -> Iterator[bytes]:
    with image.open("rb") as stream:
        while content := stream.read(portion):
            yield content


def write(image: Path, sha256: str, volume: str, signer: Signer, epoch: int) -> Made:
    """Write the list of an image and its signatures, by every key.

    :param sha256: what the image was when it was built.
    :raises ContentError: it is something else by now.
    """
    content = text(image, volume)
    if f"#sha256={sha256}\n" not in content:
        raise ContentError(
            f"{image} is not what was built: its SHA-256 was {sha256}",
            solution="Something else wrote to it. Delete it and build it again: ./doit.sh iso.",
        )
    blocks = path_of(image)
    write_whole(blocks, content)
    signature = blocks.with_name(f"{blocks.name}.sig")
    return Made((blocks, signer.sign(blocks, signature, epoch=epoch, by_all=True)))
