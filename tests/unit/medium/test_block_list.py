import hashlib
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core.errors import ContentError
from buildchain.medium import block_list
from buildchain.signatures import signing
from tests.unit.medium.test_iso import EPOCH


def sha(content):
    return hashlib.sha256(content).hexdigest()


def parts(content, length):
    return [content[start : start + length] for start in range(0, len(content), length)]


@given(st.binary(min_size=1, max_size=300), st.integers(1, 40), st.integers(1, 4))
def test_each_byte_is_in_one_portion_and_one_block(tmp_path_factory, content, block, times):
    image = tmp_path_factory.mktemp("image") / "demo.iso"
    image.write_bytes(content)
    portion = block * times
    lines = block_list.text(image, "Demo 2.9.0", block=block, portion=portion).splitlines()
    assert lines[:5] == [
        "#volume=Demo 2.9.0",
        f"#sha256={sha(content)}",
        f"#size={len(content)}",
        f"#block={block}",
        f"#portion={portion}",
    ]
    rows = [line.split(" ") for line in lines[5:]]
    expected = []
    for whole in parts(content, portion):
        expected += [["P", sha(whole)], *(["B", sha(each)] for each in parts(whole, block))]
    assert rows == expected


def test_it_is_signed(keyed):
    image = keyed.build / "demo.iso"
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_bytes(b"x" * (block_list.BLOCK + 1))
    keys = signing.export_public_key(keyed, "").paths
    with signing.signer(keyed, "") as signer:
        first = block_list.write(image, sha(image.read_bytes()), "Demo 2.9.0", signer, EPOCH)
        content = [path.read_bytes() for path in first.paths]
        again = block_list.write(image, sha(image.read_bytes()), "Demo 2.9.0", signer, EPOCH)
        with pytest.raises(ContentError, match="is not what was built"):
            block_list.write(image, sha(b"y"), "Demo 2.9.0", signer, EPOCH)
    blocks, signature = again.paths
    assert [path.read_bytes() for path in again.paths] == content, "the same bytes each time"
    assert (blocks.name, signature.name) == ("demo.iso.blocks", "demo.iso.blocks.sig")
    ring = next(path for path in keys if path.suffix == ".gpg")
    subprocess.run(["gpgv", "--keyring", ring, signature, blocks], check=True, capture_output=True)
    assert blocks.read_text().count("\nB ") == 2
