"""What of a machine's facts keeps it from joining, in sentences.

Pure. The same is wanted as ``bootstrap.sh`` wants of the first machine (its checks, whose limits
these are).
"""

from __future__ import annotations

from typing import Any

LAST = "end"  # a survey without it was cut off
GiB = 1 << 30
KiB = 1024
CPUS = 2
MEMORY = int(3.5 * GiB)
DISK = 40 * 10**9
FREE = 8 * GiB
INODES = 200_000
OFFSET = 2.0  # seconds; etcd's leases and certificates bear more, logs and people do not
ARCHITECTURE = "x86_64"
CONTROLLERS = frozenset(("cpu", "cpuset", "memory", "pids"))
# What a machine of ours keeps of pods when it was taken back.
KEPT = ("var/lib/cni", "var/lib/kubelet")
# Packages that are ours under everybody's names.
SAME_NAME = ("kubeadm", "kubectl", "kubelet")


def problems(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Say everything that keeps a machine from joining, a sentence each.

    :param wanted: ``address``, ``begun`` (it was pinned: what is ours there, is from a run before),
        ``offset`` (as above), ``releases`` (family → releases that the medium has packages for),
        ``authority`` and ``master_key`` (digests of ours), ``machines`` (machine-id → name of
        others), ``versions`` (of our packages), ``ports`` (number → what), ``accounts`` and
        ``groups`` (name → number), ``swap`` (whether it may).
    """
    if facts.get(LAST) != "survey":
        return ["it did not tell all that it was asked. Try again; its SSH server has a log."]
    if facts.get("user") != "0":
        return [
            "who logs in there is not root. Set the annotation metalk8s.scality.com/ssh-sudo to "
            "'true', or ssh-user to root."
        ]
    sentences = [*_system(facts, wanted), *_identity(facts, wanted), *_clock(wanted)]
    sentences += [*_size(facts, wanted), *_settings(facts, wanted), *_strangers(facts, wanted)]
    return [
        *sentences,
        *_packages(facts, wanted),
        *_accounts(facts, wanted),
        *_ports(facts, wanted),
    ]


def _number(facts: dict[str, Any], key: str) -> float:
    try:
        return float(facts.get(key, 0))
    except ValueError:
        return 0.0


def _system(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    sentences, releases = [], wanted["releases"]
    shown = facts.get("os_name") or facts.get("os") or "unknown"
    if facts["release"] not in releases.get(facts["family"], ()):
        there = "; ".join(f"{name} {' or '.join(has)}" for name, has in releases.items() if has)
        sentences.append(
            f"its operating system is {shown}, for which the medium has no packages. Install one "
            f"of those that it has some for ({there})."
        )
    if facts.get("architecture") != ARCHITECTURE:
        sentences.append(
            f"its processor is {facts.get('architecture')}, not {ARCHITECTURE}. Take another one."
        )
    if "systemd" not in facts:
        sentences.append("systemd did not start it. Boot it with systemd.")
    return sentences


def _identity(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    sentences, identity = [], str(facts.get("machine_id", ""))
    if len(identity) != 32 or set(identity) - set("0123456789abcdef"):
        sentences.append(
            f"its /etc/machine-id says {identity or 'nothing'}, which is no id. "
            "Run `systemd-machine-id-setup` there and reboot it."
        )
    elif identity in wanted["machines"]:
        sentences.append(
            f"its machine-id is that of {wanted['machines'][identity]}: it is that machine, or a "
            "copy of it. Remove /etc/machine-id there, run `systemd-machine-id-setup`, reboot it."
        )
    elif wanted["machine_id"] not in ("", identity):
        sentences.append(
            "another machine has joined under this name. Give this one another name, or remove "
            "that one first (remove-node.sh, with --dead when it is gone)."
        )
    if wanted["address"] not in facts["address"]:
        sentences.append(
            f"it has no interface with the address {wanted['address']}, only "
            f"{', '.join(facts['address']) or 'none'}. Correct the annotation ssh-host."
        )
    return sentences


def _clock(wanted: dict[str, Any]) -> list[str]:
    estimate, certain = wanted["offset"]
    if certain <= OFFSET:
        return []
    way = "ahead of" if estimate > 0 else "behind"
    return [
        f"its clock is {abs(estimate):.1f} s {way} this machine's; {OFFSET:.0f} s are allowed. "
        "Set both by the same NTP servers."
    ]


def _size(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    cpus, memory = _number(facts, "cpus"), _number(facts, "memory") * KiB
    sentences = []
    if cpus < CPUS:
        sentences.append(f"it has {cpus:.0f} processor, {CPUS} are needed.")
    if memory < MEMORY:
        sentences.append(f"it has {memory / GiB:.1f} GiB of memory, {MEMORY / GiB} are needed.")
    for row in facts["disk"]:
        words = [row.partition(" ")[0], *(_int(word) for word in row.split()[1:])]
        if len(words) == 5:  # folder, size, free, inodes, free inodes
            sentences += _disk(str(words[0]), words[1:], wanted)
    return sentences


def _int(word: str) -> int:
    return int(word) if word.isascii() and word.isdecimal() else 0


def _disk(folder: str, numbers: list[Any], wanted: dict[str, Any]) -> list[str]:
    size, free, inodes, spare = numbers
    if folder == "/":
        return [
            f"its root file system has {size * KiB / 10**9:.0f} GB, {DISK // 10**9} are needed."
        ] * (size * KiB < DISK)
    if wanted["begun"]:  # what ours take may be taken already
        return []
    sentences = []
    if free * KiB < FREE:
        sentences.append(
            f"{free * KiB / GiB:.1f} GiB are free for {folder}, {FREE // GiB} are needed. "
            "Delete something, or mount a larger disk."
        )
    if inodes and spare < INODES:
        sentences.append(f"{spare} more files fit below {folder}, {INODES} are needed.")
    return sentences


def _settings(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    sentences = [] if wanted["swap"] else _swap(facts)
    version, *controllers = str(facts.get("cgroups", "")).split() or ["?"]
    if missing := sorted(CONTROLLERS.difference(controllers)):
        sentences.append(
            f"its kernel has no cgroup controllers {', '.join(missing)} (cgroups {version}). "
            "Enable them on the kernel's command line and reboot it."
        )
    if lost := sorted(set(facts["lost_module"])):
        sentences.append(
            f"its kernel has no modules {', '.join(lost)}. Boot the distribution's own kernel with "
            "its modules installed."
        )
    if facts.get("selinux") == "1" and facts["family"] == "debian":
        sentences.append("SELinux forbids there, and Debian has no policy for containers.")
    if "resolver" not in facts:
        sentences.append("it has no /etc/resolv.conf. Write one; an empty one will do.")
    return sentences


def _swap(facts: dict[str, Any]) -> list[str]:
    if facts["swap"]:
        return [
            f"it swaps to {swap}. Run `swapoff {swap}`, and remove it from /etc/fstab."
            for swap in facts["swap"]
        ]
    return [
        f"it swaps to {swap} at the next start. Remove it from /etc/fstab."
        for swap in facts["later_swap"]
    ]


def _strangers(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    sentences = []
    if facts.get("authority", wanted["authority"]) != wanted["authority"]:
        sentences.append(
            "it is of another cluster: /etc/kubernetes/pki/ca.crt is not ours. Remove it from that "
            "cluster first, or take a fresh machine."
        )
    elif "authority" in facts and not wanted["begun"]:
        sentences.append(
            "it has certificates of this cluster, but is none of its machines. Take back what is "
            "there (remove-node.sh, kubeadm reset), or take a fresh machine."
        )
    if facts.get("master_key", wanted["master_key"]) != wanted["master_key"]:
        sentences.append(
            "it obeys another Salt master (/etc/salt/pki/minion/minion_master.pub). "
            "Remove its minion from there, and that file."
        )
    sentences += [
        f"/{path} is of another installation of Kubernetes. "
        "Uninstall that (kubeadm reset, for one) or take a fresh machine."
        for path in facts["trace"]
        if not wanted["begun"] and path not in KEPT
    ]
    return sentences + [
        f"/{path} conflicts with ours. Uninstall what brought it." for path in facts["program"]
    ]


def _packages(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    sentences, ours = [], wanted["versions"].get(facts["family"], {})
    removal = "apt-get purge" if facts["family"] == "debian" else "dnf remove"
    for row in sorted(facts["package"]):
        name, there, _, want = [*row.split(), "", "", "", ""][:4]
        if name not in ours and name not in SAME_NAME:
            sentences.append(
                f"{name} {there} is installed; it conflicts with ours. Run `{removal} {name}`."
            )
        elif name in SAME_NAME and there != ours.get(name):
            sentences.append(
                f"{name} {there} is installed, ours is {ours.get(name, 'none')}. "
                f"Run `{removal} {name}`."
            )
        elif want == "hold" and there != ours.get(name, there):
            sentences.append(
                f"{name} is held at {there}, the medium has {ours[name]}. "
                f"Run `apt-mark unhold {name}`."
            )
    if "unfinished" in facts and not wanted["begun"]:
        sentences.append("dpkg is in the middle of something. Run `dpkg --configure -a`.")
    return sentences


def _accounts(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    sentences = []
    for key, file in (("account", "/etc/passwd"), ("group", "/etc/group")):
        for row in facts[key]:
            there, _, number = row.partition(" ")
            for name, own in wanted[f"{key}s"].items():
                if (there == name) != (number == str(own)):
                    sentences.append(
                        f"in {file}, {there} has number {number}; {name} is to have {own}. "
                        f"Give {there} another one."
                    )
    return sentences


def _ports(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    taken = {int(found, 16) for found in facts["port"] if _is_hexadecimal(found)}
    return [
        f"port {number} is taken there, and needed for {what}. "
        f"`ss -lntp sport = :{number}` shows by whom."
        for number, what in sorted(wanted["ports"].items())
        if number in taken and not wanted["begun"]
    ]


def _is_hexadecimal(text: str) -> bool:
    return bool(text) and not set(text) - set("0123456789ABCDEFabcdef")
