"""A machine and a medium as files below a folder, all of them as bootstrap.sh wants them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import yaml
from metalk8s_bootstrap.machine import Machine
from metalk8s_bootstrap.medium import Medium

PARAMETERS = Path(__file__).parents[2] / "salt/states/metalk8s/parameters"
DEFAULTS = (PARAMETERS / "defaults.yaml").read_text(encoding="utf-8")
PORTS = (PARAMETERS / "ports.yaml").read_text(encoding="utf-8")
KERNEL = yaml.safe_load(DEFAULTS)["kernel"]
VERSION = "2.4.0-dev"
PLACE = f"srv/scality/metalk8s-{VERSION}"
NOW = 2_000_000_000.0
CONFIGURATION = """\
apiVersion: metalk8s.scality.com/v1alpha2
kind: BootstrapConfiguration
networks:
  controlPlane: 10.50.0.0/24
  workloadPlane: [10.51.0.0/24, 10.50.0.0/24]
ca:
  minion: bootstrap
apiServer:
  host: 10.50.0.2
archives:
  - /srv/scality/metalk8s-2.4.0-dev
"""
FILES = {
    "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\nVERSION_ID="12"\n',
    "etc/metalk8s/bootstrap.yaml": CONFIGURATION,
    "etc/fstab": "/dev/vda / ext4 rw 0 1\n# /dev/vdb none swap sw 0 0\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/modprobe.d/blacklist.conf": "install floppy /bin/true\n",
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/sh\n",
    "etc/resolv.conf": "search example\nnameserver 127.0.0.53\n",
    "etc/sysctl.d/99-site.conf": "# of the site\nnet.ipv4.ip_forward = 1\nvm.swappiness=1\n",
    "etc/systemd/system.conf": "[Manager]\n#DefaultEnvironment=\n",
    "proc/sys/user/max_net_namespaces": "15000\n",
    "run/systemd/resolve/resolv.conf": "nameserver 10.50.0.1\n",
    "run/systemd/system/.": "",
    "sys/class/rtc/rtc0/since_epoch": "2000000010\n",
    "var/lib/etcd/lost+found/.": "",
    "sys/module/overlay/.": "",
    "proc/sys/kernel/hostname": "bootstrap\n",
    "proc/sys/net/ipv4/ip_forward": "0\n",
    # nf_log makes this one: it says nothing of nf_conntrack.
    "proc/sys/net/netfilter/nf_log/.": "",
    "proc/meminfo": "MemTotal:        4000000 kB\nMemFree: 1 kB\n",
    "proc/swaps": "Filename Type Size Used Priority\n",
    "proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
    "cpuset\t3\t5\t1\ncpu\t1\t5\t1\nmemory\t4\t3\t1\nhugetlb\t5\t1\t0\npids\t8\t5\t1\n",
    "proc/self/mountinfo": "21 1 0:20 / / rw - ext4 /dev/vda rw\n"
    "22 21 0:21 / /mnt/a\\040b ro - iso9660 /dev/loop0 ro\n",
    "proc/net/tcp": "  sl  local_address rem_address   st\n"
    "   0: 0100007F:0016 00000000:0000 0A 0:0 00:0 0 0 0 777 1 0\n"
    "   1: 0200320A:192B 0300320A:0400 01 0:0 00:0 0 0 0 778 1 0\n",
    "proc/net/route": "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
    "eth0 00000000 0100320A 0003 0 0 0 00000000 0 0 0\n"
    "eth0 0000320A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n",
    "proc/net/fib_trie": """\
Main:
  +-- 0.0.0.0/0 3 0 5
        |-- 10.50.0.0
           /24 link UNICAST
Local:
  +-- 0.0.0.0/0 3 0 5
     +-- 10.50.0.0/24 2 0 2
        |-- 10.50.0.2
           /32 host LOCAL
     |-- 10.9.9.9
        /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
""",
    "var/lib/dpkg/status": """\
Package: bash
Status: install ok installed
Version: 5.2
Description: shell
 Package: runc

Package: runc
Status: deinstall ok config-files
Version: 1

""",
    "lib/modules/6.1/modules.builtin": "kernel/net/bridge/bridge.ko\n",
    "lib/modules/6.1/modules.dep": "".join(
        f"kernel/net/{name.replace('br_', 'br-')}.ko.xz: kernel/lib/crc.ko\n"
        for name in (*KERNEL["modules"], *KERNEL["modules_on_demand"])
        if name not in ("bridge", "overlay")
    ),
    f"{PLACE}/verify.sh": "echo verify\n",
    f"{PLACE}/product.txt": f"NAME=Demo\nVERSION={VERSION}\n",
    f"{PLACE}/salt/metalk8s/versions.json": json.dumps(
        {
            "packages": {
                "debian": {
                    "kubelet": {"version": "1.20.2-1"},
                    "metalk8s-salt-minion": {"version": "3008.2-1"},
                },
                "redhat": {"metalk8s-salt-minion": {"version": "3008.2", "release": "1"}},
            }
        }
    ),
    f"{PLACE}/salt/metalk8s/parameters/defaults.yaml": DEFAULTS,
    f"{PLACE}/salt/metalk8s/parameters/ports.yaml": (PARAMETERS / "ports.yaml").read_text(
        encoding="utf-8"
    ),
    f"{PLACE}/salt/metalk8s/parameters/os_family/debian.yaml": "repo:\n"
    "  path: packages/debian/metalk8s\n  suite: bookworm\n  components: [main]\n"
    "tools:\n  system: [conntrack]\n",
    f"{PLACE}/salt/metalk8s/parameters/os_family/redhat.yaml": "repo:\n"
    "  path: packages/redhat/metalk8s-el{release}\n",
}


@dataclasses.dataclass(frozen=True)
class Fake:
    """A machine below ``root`` with everything in order; ``machine`` is how it is looked at."""

    root: Path
    machine: Machine

    @property
    def medium(self) -> Medium:
        return Medium(self.root / PLACE)

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        """Write one of its files."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def replace(self, name: str, old: str, new: str) -> None:
        """Change one of its files."""
        text = (self.root / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def be(self, **changes: object) -> Fake:
        """Return it with something else that is in no file."""
        return Fake(self.root, dataclasses.replace(self.machine, **changes))


class RoomyMachine(Machine):
    """Its disks are not those of the machine that runs the tests."""

    sizes = (50 * 10**9, 20 << 30)
    files = (3_000_000, 2_900_000)

    def disk(self, path: str) -> tuple[int, int]:
        """Return size and free bytes."""
        super().disk(path)
        return self.sizes

    def inodes(self, path: str) -> tuple[int, int]:
        """Return the number of files there may be, and of those that are not there yet."""
        super().inodes(path)
        return self.files


def make(root: Path) -> Fake:
    """Make one."""
    answers = (lambda _: "", lambda _: (0, ""), lambda _: True, lambda _: "")
    machine = RoomyMachine(root, 0, "x86_64", "6.1", 2, NOW, *answers)
    fake = Fake(root, machine)
    for name, text in FILES.items():
        if name.endswith("/."):
            (root / name).mkdir(parents=True)
        else:
            fake.write(name, text)
    for folder in ("srv", "srv/scality", PLACE):
        (root / folder).chmod(0o755)  # whatever the umask is
    (root / "proc/77/fd").mkdir(parents=True)
    fake.write("proc/77/comm", "sshd\n")
    (root / "proc/77/fd/3").symlink_to("socket:[777]")
    (root / "proc/77/fd/4").symlink_to("/dev/null")
    return fake


def image(volume: str) -> bytes:
    """Return the part of an ISO image that says its volume id."""
    return b"\0" * 32768 + b"\1CD001\1\0" + b" " * 32 + volume.encode().ljust(32) + b"\0" * 2000
