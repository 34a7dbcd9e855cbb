"""Changes to a machine on which all is well, each of them a mistake."""

import dataclasses
import shutil

from metalk8s_bootstrap import command

from tests.unit import bootstrap

YAML = "etc/metalk8s/bootstrap.yaml"
MINION = "ca:\n  minion: bootstrap\n"
HOST = "  host: 10.50.0.2\n"
ARCHIVE = "  - /srv/scality/metalk8s-2.4.0-dev\n"
KEEPALIVED = "  host: 10.50.0.9\n  keepalived:\n    enabled: true\n"
PASSWORD = "    authPassword: secret\n"


def found(fake):
    return command.find(fake.machine, fake.medium)[1]


def yaml(old, new):
    """Make a change to the configuration."""
    return lambda fake: fake.replace(YAML, old, new)


def be(**changes):
    return lambda fake: fake.be(**changes)


def write(name, text, mode=0o644):
    return lambda fake: fake.write(name, text, mode)


def replace(name, old, new):
    return lambda fake: fake.replace(name, old, new)


def vip(address):
    """Let keepalived move an address."""
    text = bootstrap.CONFIGURATION.replace(HOST, f"{KEEPALIVED}{PASSWORD}")
    return write(YAML, text.replace("10.50.0.9", address), 0o600)


def disk(total, free):
    def change(fake):
        class Small(bootstrap.RoomyMachine):
            sizes = (total, free)

        fields = {f.name: getattr(fake.machine, f.name) for f in dataclasses.fields(fake.machine)}
        return bootstrap.Fake(fake.root, Small(**fields))

    return change


def remove(name):
    def change(fake):
        path = fake.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def listen(port, program="nginx"):
    def change(fake):
        row = f"   2: 00000000:{port:04X} 00000000:0000 0A 0:0 00:0 0 0 0 900 1 0\n"
        fake.write("proc/net/tcp6", "header\n" + row)
        (fake.root / "proc/90/fd").mkdir(parents=True)
        fake.write("proc/90/comm", f"{program}\n")
        (fake.root / "proc/90/fd/3").symlink_to("socket:[900]")

    return change


def install(name, version):
    text = f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n"
    return write("var/lib/dpkg/status", text)


def iso(volume, name="root/a.iso"):
    def change(fake):
        path = fake.write(name, "")
        path.write_bytes(bootstrap.image(volume))
        fake.replace(YAML, ARCHIVE, f"  - /{name}\n")

    return change


def both(*several):
    def change(fake):
        for one in several:
            changed = one(fake)
            fake = changed if isinstance(changed, bootstrap.Fake) else fake
        return fake

    return change


def other_at_the_place(fake):
    iso("Demo 2.4.0-dev")(fake)
    fake.replace(f"{bootstrap.PLACE}/product.txt", "2.4.0-dev", "2.5.0")
    copy = fake.root / "mnt"
    shutil.copytree(fake.root / bootstrap.PLACE, copy)
    fake.write("mnt/product.txt", "NAME=Demo\nVERSION=2.4.0-dev\n")
    return copy


def link(name, target):
    """Put a symbolic link in the place of a file."""

    def change(fake):
        (fake.root / name).unlink(missing_ok=True)
        (fake.root / name).symlink_to(target)

    return change


def mounted(point, options, root_options="rw"):
    """Mount a file system of its own."""
    return write(
        "proc/self/mountinfo",
        f"21 1 0:20 / / {root_options} - ext4 /dev/vda rw\n"
        f"22 21 0:21 / {point} {options} - ext4 /dev/vdb rw\n",
    )


def says(program, status, text, *words):
    """Let a program say something, when it is called with certain words."""

    def call(argv):
        is_it = argv[0] == program and set(words) <= set(argv)
        return (status, text) if is_it else (0, "")

    return be(call=call)


def inodes(free):
    def change(fake):
        class Crowded(bootstrap.RoomyMachine):
            files = (3_000_000, free)

        fields = {f.name: getattr(fake.machine, f.name) for f in dataclasses.fields(fake.machine)}
        return bootstrap.Fake(fake.root, Crowded(**fields))

    return change


def el(fake):
    """Make it a machine of EL 9, on which all is well."""
    fake.write("etc/os-release", 'ID=rocky\nVERSION_ID="9.3"\n')
    (fake.root / "var/lib/dpkg/status").unlink()
