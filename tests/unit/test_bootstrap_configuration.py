"""Every bad configuration, one change to one that is right."""

import pytest
from metalk8s_bootstrap import command, problems
from metalk8s_bootstrap.problems import Group

from tests.unit import bootstrap
from tests.unit.mistakes import (
    ARCHIVE,
    HOST,
    KEEPALIVED,
    MINION,
    PASSWORD,
    YAML,
    both,
    found,
    remove,
    write,
    yaml,
)

SITUATIONS = {
    # The configuration: what is written, where, and what the operator is told.
    "no file": (remove(YAML), "bootstrap.yaml: there is no such file"),
    "a folder": (both(remove(YAML), write(f"{YAML}/x", "")), "cannot be read: Is a directory"),
    "empty": (write(YAML, ""), "is empty"),
    "no YAML": (yaml("kind:", "kind: ["), "yaml:3: is not YAML"),
    "a tab": (yaml("  host", "\thost"), "yaml:9: is not YAML"),
    "a control character": (yaml("host", "ho\x01st"), "is not YAML"),
    "a list": (write(YAML, "- a\n"), "yaml:1: the document is a list, expected a mapping"),
    "unknown key": (yaml("ca:\n", "certificates: 1\nca:\n"), "yaml:6: certificates is not known"),
    "unknown inner key": (
        yaml("  host", "  hosts: a\n  host"),
        "yaml:9: apiServer.hosts is not known",
    ),
    "key of a list": (yaml("ca:\n", "? [a]\n: b\nca:\n"), "a key is no text"),
    "missing CA minion": (yaml("  minion: bootstrap\n", "  {}\n"), "yaml:7: ca.minion is missing"),
    "no CA": (yaml(MINION, ""), "yaml:1: ca is missing"),
    "empty value": (
        yaml("  minion: bootstrap", "  minion:"),
        "yaml:7: ca.minion is nothing, expected a text",
    ),
    "twice": (yaml("ca:\n", "kind: x\nca:\n"), "yaml:6: kind is there twice, first in line 2"),
    "wrong type": (yaml("ca:\n  minion: bootstrap", "ca: bootstrap"), "ca is a text (bootstrap)"),
    "number for a name": (yaml("minion: bootstrap", "minion: 5"), "ca.minion is a number (5)"),
    "date for a name": (yaml("minion: bootstrap", "minion: 2001-01-01"), "is of another type"),
    "impossible date": (yaml("minion: bootstrap", "minion: 2001-13-01"), "yaml:7: ca.minion: 2001"),
    "unknown tag": (yaml("minion: bootstrap", "minion: !x y"), "yaml:7: ca.minion: y"),
    "wrong version": (yaml("v1alpha2", "v1"), "yaml:1: apiVersion is metalk8s.scality.com/v1, ex"),
    "wrong kind": (yaml("BootstrapConfiguration", "Pod"), "yaml:2: kind is Pod"),
    "bad CIDR": (
        yaml(": 10.50.0.0/24", ": 10.50.0.300/24"),
        "yaml:4: networks.controlPlane: 10.50.0.300/24 is no IPv4 network",
    ),
    "address, not network": (
        yaml(": 10.50.0.0/24", ": 10.50.0.2/24"),
        "Write the network: 10.50.0.0/24",
    ),
    "no prefix": (yaml(": 10.50.0.0/24", ": 10.50.0.0"), "10.50.0.0 has no prefix"),
    "IPv6": (yaml(": 10.50.0.0/24", ": fd00::/64"), "IPv6 is not supported"),
    "no CIDR in a list": (
        yaml("[10.51.0.0/24", "[10.51/24"),
        "yaml:5: networks.workloadPlane[0]",
    ),
    "empty list": (yaml(": 10.50.0.0/24", ": []"), "networks.controlPlane is an empty list"),
    "number in a list": (yaml("[10.51.0.0/24", "[5"), "networks.workloadPlane[0] is a number"),
    "small pod network": (
        yaml("ca:\n", "  pods: 10.233.0.0/24\nca:\n"),
        "yaml:6: networks.pods: 10.233.0.0/24 has a prefix of 24 bits",
    ),
    "large service network": (
        yaml("ca:\n", "  services: 11.0.0.0/8\nca:\n"),
        "networks.services: 11.0.0.0/8 has a prefix of 8 bits",
    ),
    "list of pod networks": (yaml("ca:\n", "  pods: []\nca:\n"), "networks.pods is a list"),
    "minion with capitals": (
        yaml("minion: bootstrap", "minion: Bootstrap"),
        "ca.minion: Bootstrap is no name",
    ),
    "long minion": (yaml("minion: bootstrap", f"minion: {64 * 'a'}"), "longer than 63"),
    "host is a name": (yaml("10.50.0.2", "api"), "yaml:9: apiServer.host: api is no IPv4 address"),
    "host is loopback": (yaml("host: 10.50.0.2", "host: 127.0.0.1"), "other machines can reach"),
    "host is a number": (yaml("host: 10.50.0.2", "host: 5"), "apiServer.host is a number"),
    "keepalived without VIP": (
        yaml(HOST, "  keepalived: {enabled: true, authPassword: a}\n"),
        "yaml:9: apiServer.keepalived is enabled, but apiServer.host names no VIP",
    ),
    "VIP elsewhere": (
        yaml(HOST, f"{KEEPALIVED}{PASSWORD}".replace("50.0.9", "51.0.9")),
        "yaml:9: apiServer.host: 10.51.0.9 is in no network of the control plane",
    ),
    "no password": (yaml(HOST, KEEPALIVED), "has no authPassword"),
    "long password": (
        yaml(HOST, f"{KEEPALIVED}    authPassword: 12345678x\n"),
        "yaml:12: apiServer.keepalived.authPassword is no password",
    ),
    "password with blanks": (
        yaml(HOST, f"{KEEPALIVED}    authPassword: a b\n"),
        "authPassword is no password that keepalived can have",
    ),
    "password with a quotation mark": (
        yaml(HOST, f'{KEEPALIVED}    authPassword: a"b\n'),
        "yaml:12: apiServer.keepalived.authPassword is no password",
    ),
    "router's number": (
        yaml(HOST, f"{KEEPALIVED}{PASSWORD}    virtualRouterId: 256\n"),
        "yaml:13: apiServer.keepalived.virtualRouterId: 256",
    ),
    "router's name": (
        yaml(HOST, f"{KEEPALIVED}{PASSWORD}    virtualRouterId: one\n"),
        "virtualRouterId is a text (one), expected a number",
    ),
    "toggle": (
        yaml(HOST, KEEPALIVED.replace("true", "1")),
        "enabled is a number (1), expected tru",
    ),
    "readable password": (
        both(
            yaml(HOST, f"{KEEPALIVED}{PASSWORD}"),
            lambda fake: (fake.root / YAML).chmod(0o644),
        ),
        "holds a password, and everybody may read it (mode 0644)",
    ),
    "writable": (
        write(YAML, bootstrap.CONFIGURATION, 0o666),
        "others than its owner may change it",
    ),
    "relative archive": (yaml("- /srv", "- srv"), "archives[0]: srv/scality/metalk8s-2.4.0-dev is"),
    "archive from above": (yaml("- /srv/", "- /srv/../"), "is no absolute path"),
    "archive twice": (yaml(ARCHIVE, ARCHIVE + ARCHIVE), "yaml:12: archives[1]: /srv"),
    "time is a text": (
        yaml("archives:", "time: 10.50.0.9\narchives:"),
        "yaml:10: time is a text (10.50.0.9), expected a mapping",
    ),
    "time server is no list": (
        yaml("archives:", "time: {servers: 10.50.0.9}\narchives:"),
        "time.servers is a text (10.50.0.9), expected a list",
    ),
    "no time server": (
        yaml("archives:", "time: {servers: []}\narchives:"),
        "time.servers is an empty list",
    ),
    "time server by name": (
        yaml("archives:", "time: {servers: [ntp.example]}\narchives:"),
        "yaml:10: time.servers[0]: ntp.example is no IPv4 address",
    ),
    "time server on loopback": (
        yaml("archives:", "time: {servers: [127.0.0.1]}\narchives:"),
        "time.servers[0]: 127.0.0.1 is no address that other machines can reach",
    ),
    "time server twice": (
        yaml("archives:", "time:\n  servers: [10.9.9.1, 10.9.9.1]\narchives:"),
        "yaml:11: time.servers[1]: 10.9.9.1 is listed twice",
    ),
    "unknown key of time": (
        yaml("archives:", "time: {pool: a}\narchives:"),
        "time.pool is not known",
    ),
    "time servers that nobody asks": (
        yaml("archives:", "time: {manage: false, servers: [10.9.9.1]}\narchives:"),
        "yaml:10: time names servers, but manage is false",
    ),
    "manage is no flag": (
        yaml("archives:", "time: {manage: 0}\narchives:"),
        "time.manage is a number (0), expected true or false",
    ),
    "unknown parameter": (
        write(YAML, f"{bootstrap.CONFIGURATION}site:\n  kubelet:\n    colour: red\n"),
        "yaml:14: site.kubelet.colour is no parameter of the states",
    ),
    "unknown section": (
        write(YAML, f"{bootstrap.CONFIGURATION}site: {{colour: red}}\n"),
        "parameters here: administrator, archive, ",
    ),
    "site is a text": (write(YAML, f"{bootstrap.CONFIGURATION}site: x\n"), "site is a text (x)"),
    "site's section is a text": (
        write(YAML, f"{bootstrap.CONFIGURATION}site: {{kubelet: x}}\n"),
        "site.kubelet is a text (x)",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_configurations(fake, name):
    change, words = SITUATIONS[name]
    change(fake)
    told = [problem for problem in found(fake) if problem.group is Group.CONFIGURATION]
    assert len(told) == 1, told
    assert words in "\n".join(map(str, told))
    assert problems.status(told) == 21


def test_complete_configuration(fake):
    fake.write(
        YAML,
        bootstrap.CONFIGURATION.replace(
            HOST, f"{KEEPALIVED}    virtualRouterId: 7\n    authPassword: secret\n"
        )
        .replace("enabled: true", "enabled: false")
        .replace("ca:\n", "  pods: 10.200.0.0/16\n  services: 10.201.0.0/16\nca:\n"),
        0o600,
    )
    subject, told = command.find(fake.machine, fake.medium)
    assert told == []
    read = subject.configuration
    assert (read.keepalived.router, read.keepalived.password) == (7, "secret")
    assert (str(read.pods), str(read.services)) == (
        "networks.pods (10.200.0.0/16)",
        "networks.services (10.201.0.0/16)",
    )
    assert [str(network.cidr) for network in read.workload_plane] == [
        "10.51.0.0/24",
        "10.50.0.0/24",
    ]
    assert read.lines["archives[0]"] == 17


def test_time_servers(fake):
    """In their order; none without the key, and none where the clock is not ours."""
    subject, told = command.find(fake.machine, fake.medium)
    assert (subject.configuration.time_servers, told) == ((), [])
    yaml("archives:", "time: {servers: [10.9.9.2, 10.9.9.1]}\narchives:")(fake)
    subject, told = command.find(fake.machine, fake.medium)
    assert told == []
    assert [str(one) for one in subject.configuration.time_servers] == ["10.9.9.2", "10.9.9.1"]
    fake.replace(YAML, "servers: [10.9.9.2, 10.9.9.1]", "manage: false")
    subject, told = command.find(fake.machine, fake.medium)
    assert (subject.configuration.time_servers, told) == ((), [])


def test_the_example_is_fine(fake, root):
    text = (root / "salt/scripts/bootstrap.example.yaml").read_text()
    fake.write(YAML, text.replace("/root/metalk8s.iso", f"/{bootstrap.PLACE}"))
    assert found(fake) == []


def test_passwords_are_not_told(fake):
    SITUATIONS["password with blanks"][0](fake)
    assert "a b" not in "\n".join(map(str, found(fake)))


def test_other_texts(fake):
    """UTF-8, no aliases (an anchor that nobody refers to stands for itself), lists in lists."""
    path = fake.write(YAML, "")
    path.write_bytes(b"kind: \xff")
    assert "is not UTF-8: byte 6 is not" in str(found(fake)[0])
    text = bootstrap.CONFIGURATION.replace("host: 10", "host: &here 10")
    fake.write(YAML, f"{text}site: {{kubelet: {{service: *here, fail_swap_on: [1]}}}}\n")
    assert "yaml:12: *here is an alias" in str(found(fake)[0])
    fake.replace(YAML, "*here", "10.50.0.2")
    subject, told = command.find(fake.machine, fake.medium)
    assert told == []
    site = subject.configuration.site
    assert site == {"kubelet": {"service": "10.50.0.2", "fail_swap_on": [1]}}


def test_keepalived_with_a_bad_vip_is_told_once(fake):
    fake.replace(YAML, HOST, f"{KEEPALIVED}{PASSWORD}".replace("10.50.0.9", "here"))
    told = [str(problem) for problem in found(fake) if "keepalived" not in problem.what]
    assert len(told) == 1
    assert "apiServer.host: here is no IPv4 address" in told[0]
