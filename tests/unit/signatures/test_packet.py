import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.signatures import packet
from tests.unit.signatures.conftest import EPOCH

TEXTS = [
    b"a\n", b"a", b"", b"\n", b"-dash\nFrom here\n- x\n", b"trailing  \t\nno end", b"a\n\n\n",
    b"Suite: bookworm\nSHA256:\n 0 1 main/Packages\n",
]  # fmt: skip


def signed(office, tmp_path, kind, content):
    file, output = tmp_path / "file", tmp_path / "output"
    file.write_bytes(content)
    form = {"detached": [], "armored": ["--armor"], "clear": []}[kind]
    form += ["--clear-sign" if kind == "clear" else "--detach-sign"]
    office.gpg("--faked-system-time", f"{EPOCH}!", "--digest-algo", "SHA256", "--yes",
               "--local-user", office.keys[0], "--output", output, *form, file)  # fmt: skip
    return output.read_bytes()


@pytest.mark.parametrize("kind", ["detached", "armored", "clear"])
@pytest.mark.parametrize("content", TEXTS)
def test_the_form_is_that_of_gpg(office, tmp_path, kind, content):
    answer = signed(office, tmp_path, kind, content)
    assert packet.form(kind, packet.extract(answer), content) == answer


def test_comments_of_another_gpg_do_not_get_in(office, tmp_path):
    plain = signed(office, tmp_path, "armored", b"x")
    for strange in (
        plain.replace(packet.BEGIN, packet.BEGIN + b"Comment: of mine\nVersion: GnuPG v1\n"),
        plain.replace(b"\n", b"\r\n"),
        b"\n".join(line for line in plain.split(b"\n") if not line.startswith(b"=")),
    ):
        assert strange != plain
        assert packet.form("armored", packet.extract(strange), b"x") == plain


@given(st.binary(max_size=400))
def test_armour_comes_off(data):
    assert packet.unarmor(packet.armor(data)) == data


@given(st.binary(max_size=60))
def test_what_is_no_signature_is_refused_in_words(data):
    try:
        found = packet.extract(data)
    except ValueError:
        return
    assert data[0] >> 2 == 0x22
    assert found == data


@pytest.mark.parametrize("damage", [
    lambda one: one + one, lambda one: one + b"\x00", lambda one: one[:-1], lambda one: b"",
    lambda one: packet.armor(one) + b"more", lambda one: packet.armor(one + one),
    lambda one: packet.armor(one)[:100], lambda one: packet.BEGIN + b"\n???\n" + packet.END,
    lambda one: packet.BEGIN + b"Comment: x" + packet.END, lambda one: b"\xb4" + one[1:],
])  # fmt: skip
def test_more_or_less_than_one_signature(office, tmp_path, damage):
    answer = signed(office, tmp_path, "detached", b"x")
    with pytest.raises(ValueError, match=r"one signature|no armour|no base64"):
        packet.extract(damage(answer))
