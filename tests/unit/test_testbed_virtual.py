"""The virtual machines of the test bed, without one: argument lists, captures, identities."""

import struct
from pathlib import Path

import pytest

from tests.testbed import disk, qemu, virtual
from tests.testbed.disk import Disk, DiskError
from tests.testbed.machine import Packet


@pytest.fixture
def machine(tmp_path):
    return virtual.VirtualMachine(tmp_path, Disk(tmp_path / "template"), "1", Path("/the.iso"), 99)


def test_the_network_has_no_way_out(machine):
    argv = qemu.argv(machine.hardware, qemu.EMULATED)
    assert argv[0] == "qemu-system-x86_64"
    [network] = [argv[i + 1] for i, word in enumerate(argv) if word == "-netdev"]
    assert network == "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:99-:22"
    assert "file=/the.iso,if=virtio,format=raw,readonly=on" in argv
    # Nothing of qemu's defaults, which have a network card with a way out.
    assert {"-nodefaults", "-no-user-config"} <= set(argv)


def test_without_a_stick(tmp_path):
    machine = virtual.VirtualMachine(tmp_path, Disk(tmp_path), "1")
    assert qemu.argv(machine.hardware, ()).count("-drive") == 1
    assert machine.hardware.port


def test_a_machine_without_virtualisation_emulates(monkeypatch, tmp_path):
    monkeypatch.setattr(qemu, "FLAGS", tmp_path / "cpuinfo")
    qemu.FLAGS.write_text("flags : fpu vme avx512vmxx hypervisor\n")
    assert qemu.accelerator(tmp_path / "vmlinuz") == qemu.EMULATED


def test_virtualisation_that_starts_nothing_emulates(monkeypatch, tmp_path, fake_program):
    flags = tmp_path / "cpuinfo"
    flags.write_text("flags : fpu vmx\n")
    monkeypatch.setattr(qemu, "FLAGS", flags)
    monkeypatch.setattr(qemu, "DEVICE", flags)
    fake_program("qemu-system-x86_64", status=1)
    assert qemu.accelerator(tmp_path / "vmlinuz") == qemu.EMULATED
    prints = "open([a for a in argv if a.startswith('file:')][0][5:], 'w').write('Linux version')"
    fake_program("qemu-system-x86_64", f"import time\n{prints}\ntime.sleep(9)")
    assert qemu.accelerator(tmp_path / "vmlinuz") == qemu.HARDWARE


def ethernet(payload, kind=b"\x08\x00"):
    frame = bytes(12) + kind + payload
    return struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame


def test_packets_of_a_capture(machine):
    header = bytes([0x45, 0, 0, 28]) + bytes(5) + bytes([17, 0, 0])
    datagram = header + bytes([10, 0, 2, 15, 192, 0, 2, 53]) + struct.pack("!HHHH", 1, 53, 8, 0)
    frames = ethernet(datagram) + ethernet(bytes(28), b"\x08\x06") + ethernet(datagram)[:-3]
    machine.hardware.capture.write_bytes(bytes(24) + frames)
    # Neither ARP nor what is still being written.
    assert machine.packets() == [Packet("10.0.2.15", "192.0.2.53", 17, 53)]


def test_every_variant_has_its_scripts():
    for name, recipe in disk.variants().items():
        assert set(recipe) == {"base", "kernel", "packages", "scripts"}, name
        assert all((disk.RECIPE / script).is_file() for script in recipe["scripts"])


def test_a_disk_is_of_its_archive(tmp_path, fake_program):
    with pytest.raises(DiskError, match=r"no indexes of Debian\. Run \./doit\.sh _apt_update"):
        disk.ensure("minbase", tmp_path, tmp_path)
    with pytest.raises(DiskError, match=r"there is no machine large\. Name one of: minbase"):
        disk.ensure("large", tmp_path, tmp_path)
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "a_InRelease").write_text("monday")
    first = disk.identity("minbase", tmp_path)
    assert first == disk.identity("minbase", tmp_path)
    assert first != disk.identity("hardened", tmp_path)
    (tmp_path / "lists" / "a_InRelease").write_text("tuesday")
    assert first != disk.identity("minbase", tmp_path)


def test_a_disk_that_cannot_be_made_leaves_nothing(tmp_path, fake_program):
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "a_InRelease").write_text("monday")
    (tmp_path / "debian.sources").write_text("Types: deb deb-src\n")
    fake_program("ssh-keygen")
    fake_program("mmdebstrap", output="E: no space\n", status=25)
    with pytest.raises(DiskError, match="mmdebstrap failed with status 25:\nE: no space"):
        disk.ensure("minbase", tmp_path, tmp_path / "cache")
    assert list((tmp_path / "cache" / "machines").iterdir()) == []
