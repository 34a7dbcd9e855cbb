"""The cluster that bootstrap.sh made of a machine: what it is like, and that it can be taken back.

Runs ``docker``. The fixture ``cluster`` comes from ``conftest.py``.
"""

from __future__ import annotations

import base64
import json
import pathlib
import re

import pytest
import yaml

from tests.integration import kubeadm
from tests.integration.conftest import ROOT, require
from tests.testbed.machine import (
    KUBECTL,
    PASSWORD,
    Machine,
    changed,
    changes,
    docker,
    failed,
)

pytestmark = pytest.mark.integration

POLICIES = {"metalk8s", "metalk8s-pods"}
PORTS = ROOT / "docs/reference/ports.md"
DATA = pathlib.Path(__file__).parent / "data"
FOR_MASTERS = {"2379", "2380", "10250"}
ROUTE_LOCALNET = "/proc/sys/net/ipv4/conf/all/route_localnet"
SERVICE = "metalk8s-firewall"
RULES = "sh /etc/metalk8s/firewall/load.sh"
WEB = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {{app: web}}
spec:
  tolerations: [{{operator: Exists}}]
  containers:
    - name: web
      image: registry.metalk8s.invalid/metalk8s-{version}/nginx:{nginx}
      command: [sh, -c, "echo started; exec nginx -g 'daemon off;'"]
      securityContext: {{runAsUser: 0}}
      volumeMounts:
        - {{name: configuration, mountPath: /etc/nginx/conf.d}}
  volumes:
    - name: configuration
      configMap: {{name: web}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
data:
  web.conf: |
    server {{ listen 8080; location / {{ return 200 "it works\\n"; }} }}
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  type: NodePort
  selector: {{app: web}}
  ports: [{{port: 80, targetPort: 8080, nodePort: 30080}}]
"""


def test_node_is_ready(cluster: Machine) -> None:
    """With the labels, the taint and the version of what it is."""
    [node] = json.loads(cluster.kubectl("get nodes -o json"))["items"]
    conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    labels = node["metadata"]["labels"]
    roles = {label.partition("/")[2] for label in labels if label.startswith("node-role.")}
    assert roles == {"bootstrap", "control-plane", "etcd", "infra", "master"}
    assert labels["metalk8s.scality.com/version"] == cluster.version
    assert {taint["key"] for taint in node["spec"]["taints"]} == {"node-role.kubernetes.io/master"}
    namespace = json.loads(cluster.kubectl("get namespace kube-system -o json"))
    annotations = namespace["metadata"]["annotations"]
    assert annotations["metalk8s.scality.com/cluster-version"] == cluster.version


def test_control_plane_runs(cluster: Machine) -> None:
    """All pods, none of which was started twice."""
    names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    for name in (*names, "balancer", "repositories", "salt-master"):
        # The kubelet tells of its static pods once a minute.
        pod = f"{KUBECTL} -n kube-system get pod {name}-bootstrap --no-headers"
        cluster.wait(f"{pod} | grep -E '1/1 +Running'")
    for daemon in ("kube-proxy", "pod-network", "load-balancer-speaker"):
        cluster.kubectl(f"-n kube-system rollout status daemonset/{daemon} --timeout=60s")
    pods = json.loads(cluster.kubectl("-n kube-system get pods -o json"))["items"]
    restarts = {
        pod["metadata"]["name"]: status["restartCount"]
        for pod in pods
        for status in pod["status"]["containerStatuses"]
    }
    assert set(restarts.values()) == {0}, restarts


def test_pod_from_the_iso_serves(cluster: Machine, iso_tree: pathlib.Path) -> None:
    """It runs, has logs, takes commands, and is reached at its Service's address."""
    [nginx] = (path.name for path in (iso_tree / "images/nginx").iterdir())
    manifest = WEB.format(version=cluster.version, nginx=nginx)
    cluster.kubectl("apply -f -", manifest)
    cluster.kubectl("wait --for=condition=Ready pod/web --timeout=60s")
    assert cluster.kubectl("logs web").strip() == "started"
    assert cluster.kubectl("exec web -- id -u").strip() == "0"
    address = cluster.kubectl("get service web -o jsonpath='{.spec.clusterIP}'")
    read = f"import urllib.request as u; print(u.urlopen('http://{address}/').read().decode())"
    assert "it works" in cluster.wait(f'python3 -c "{read}"', 30)
    cluster.kubectl("delete -f - --wait=false", manifest)


def test_pods_have_a_network(cluster: Machine) -> None:
    """As the agent wrote it, which mends what others break."""
    [node] = json.loads(cluster.kubectl("get nodes -o json"))["items"]
    [ptp, portmap] = json.loads(cluster.shell("cat /etc/cni/net.d/*.conflist"))["plugins"]
    assert (ptp["type"], portmap["type"]) == ("ptp", "portmap")
    assert ptp["ipam"]["ranges"] == [[{"subnet": node["spec"]["podCIDR"]}]]
    annotations = node["metadata"]["annotations"]
    assert annotations["metalk8s.scality.com/workload-address"] == cluster.address
    table = "nft list table ip metalk8s_pods"
    before = cluster.shell(table)
    assert f"elements = {{ {cluster.address} }}" in before
    cluster.shell("nft delete table ip metalk8s_pods && ip route flush protocol 107")
    cluster.wait("ip route show protocol 107 | grep '^unreachable 10.233.0.0/16'", 5)
    cluster.wait(table, 5)
    assert cluster.shell(table) == before
    assert not changed(cluster.apply("metalk8s.pod-network"))


@pytest.fixture(scope="module")
def of_kubeadm(
    cluster: Machine,
    iso_tree: pathlib.Path,
    base_image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> pathlib.Path:
    """Let kubeadm write what it would write to this machine."""
    require("dpkg-deb")
    folder = tmp_path_factory.mktemp("kubeadm")
    [package] = (iso_tree / "packages/debian").rglob("kubeadm_*.deb")
    versions = json.loads((iso_tree / "salt/metalk8s/versions.json").read_text(encoding="utf-8"))
    kubernetes = versions["kubernetes"]["version"]
    machine = ("bootstrap", cluster.address, kubernetes, cluster.vip)
    kubeadm.generate(folder, package, base_image, *machine)
    return folder / "kubernetes"


# Clients of ours that may do less than kubeadm's, whose group may do anything.
LESS = ("apiserver-etcd-client.crt", "apiserver-kubelet-client.crt", "etcd/healthcheck-client.crt")


def test_certificates_are_those_of_kubeadm(cluster: Machine, of_kubeadm: pathlib.Path) -> None:
    """The same files, subjects, names and usages; ours end after 90 days, not after a year.

    Clients that other masters get, too, are in no group; the API server is behind the balancer.
    """
    show = "openssl x509 -noout -subject -ext keyUsage,extendedKeyUsage,subjectAltName"
    for theirs in sorted((of_kubeadm / "pki").rglob("*.crt")):
        ours = f"/etc/kubernetes/pki/{theirs.relative_to(of_kubeadm / 'pki')}"
        expected = described(cluster.shell(show, theirs.read_text(encoding="ascii")))
        if ours.endswith(LESS):
            expected.remove("O = system:masters")
        if ours.endswith("/apiserver.crt"):
            expected = sorted([*expected, "IP Address:127.0.0.1"])
        assert described(cluster.shell(f"{show} -in {ours}")) == expected, ours
        authority = ours.endswith("ca.crt")
        soon = f"openssl x509 -noout -checkend {91 * 86400} -in {ours} || true"
        assert ("will not expire" in cluster.shell(soon)) is authority


def test_kubeconfigs_are_those_of_kubeadm(cluster: Machine, of_kubeadm: pathlib.Path) -> None:
    """The same servers, users and contexts, and the same users in the certificates.

    But the kubelet asks the balancer of its machine (docs/adr/0033).
    """
    show = "openssl x509 -noout -subject -ext keyUsage,extendedKeyUsage"
    for theirs in sorted(of_kubeadm.glob("*.conf")):
        documents = [
            yaml.safe_load(text)
            for text in (
                theirs.read_text(encoding="utf-8"),
                cluster.shell(f"cat /etc/kubernetes/{theirs.name}"),
            )
        ]
        certificates = []
        for document in documents:
            user, trusted = document["users"][0]["user"], document["clusters"][0]["cluster"]
            pem = base64.b64decode(user.pop("client-certificate-data")).decode("ascii")
            certificates.append(described(cluster.shell(show, pem)))
            assert user.pop("client-key-data")
            assert trusted.pop("certificate-authority-data")
        if theirs.name == "kubelet.conf":
            trusted = documents[0]["clusters"][0]["cluster"]
            assert trusted["server"] == f"https://{cluster.vip}:6443"
            trusted["server"] = "https://127.0.0.1:7443"
        assert documents[0] == documents[1], theirs.name
        assert certificates[0] == certificates[1], theirs.name


def described(text: str) -> list[str]:
    """Sort what openssl says of a certificate; it has names in the order they were given."""
    return sorted(re.split(r"[,\n]\s*", text.replace("subject=", "").strip()))


def test_secret_is_ciphertext_in_etcd(cluster: Machine) -> None:
    """Read with etcd's own client, past the API server."""
    cluster.kubectl("create secret generic hidden --from-literal=word=xyzzy")
    pki = "/etc/kubernetes/pki/etcd"
    stored = cluster.kubectl(
        "-n kube-system exec etcd-bootstrap -- etcdctl --endpoints https://127.0.0.1:2379 "
        f"--cacert {pki}/ca.crt --cert {pki}/healthcheck-client.crt "
        f"--key {pki}/healthcheck-client.key get /registry/secrets/default/hidden | base64"
    )
    content = base64.b64decode(stored)
    assert b"k8s:enc:secretbox:v1:key1:" in content
    assert b"xyzzy" not in content
    assert b"eHl6enk" not in content


def test_registry_answers_over_tls_only(cluster: Machine) -> None:
    """Whoever does not know its authority is told so, and plain HTTP is refused."""
    url = f"https://{cluster.address}:5443/v2/"
    ours = "/etc/metalk8s/pki/repositories-ca.crt"
    script = (
        "import ssl,sys,urllib.request as u; "
        f"print(u.urlopen('{url}', context=ssl.create_default_context(cafile=sys.argv[1])).status)"
    )
    assert cluster.shell(f'python3 -c "{script}" {ours}').strip() == "200"
    other = "/etc/kubernetes/pki/ca.crt"
    refused = cluster.shell(f'python3 -c "{script}" {other} 2>&1 || true')
    assert "CERTIFICATE_VERIFY_FAILED" in refused
    plain = script.replace("https://", "http://")
    assert "400" in cluster.shell(f'python3 -c "{plain}" {ours} 2>&1 || true')


def test_ports_are_those_of_the_table(cluster: Machine, debian_root_image: str) -> None:
    """Seen from another machine: what it may use, and no more; nothing lets a stranger in."""
    table = set(
        re.findall(
            r"(?m)^\| (\d+) \| .*? \| (?:workload )?plane", PORTS.read_text(encoding="utf-8")
        )
    )
    virtual = scanned(cluster, debian_root_image, address=cluster.vip)
    assert set(virtual) == {"22", "6443"}
    found = scanned(cluster, debian_root_image)
    assert virtual["6443"] == found["6443"]
    assert found.pop("22")["plain"].startswith("SSH-2.0-")
    assert set(found) == table - FOR_MASTERS
    own = f"container:{cluster.name}"
    found = scanned(cluster, debian_root_image, *sorted(table), network=own)
    assert not [port for port, said in found.items() if re.match(r"HTTP/1\.\d 2", said["plain"])]
    # Without an Ingress nothing is behind it.
    assert found.pop("80")["plain"].startswith("HTTP/1.1 404")
    assert {port: said["tls"] for port, said in found.items()} == {
        **dict.fromkeys(("2379", "2380", "4505", "4506"), "certificate required"),
        **dict.fromkeys(("443", "8443"), "404"),
        "5443": "404",  # what is on the ISO is below other paths
        "6443": "403",
        "10250": "404",
    }


def scanned(
    cluster: Machine, image: str, *ports: str, address: str = "", network: str = ""
) -> dict[str, dict[str, str]]:
    """Say what another machine finds, of the same network or a given one: see ``data/scan.py``."""
    scan = (DATA / "scan.py").read_text(encoding="utf-8")
    found = json.loads(
        docker(
            *("run", "--rm", "--interactive", f"--network={network or cluster.network}"),
            *("--entrypoint=python3", image, "-", address or cluster.address, *ports),
            text=scan,
        )
    )
    assert isinstance(found, dict)
    return found


def test_neighbours_do_not_reach_loopback(cluster: Machine) -> None:
    """CVE-2020-8558: a packet for 127.0.0.1 that another machine sends is dropped, first of all.

    That machine is a namespace on a cable of its own: Docker's bridge would not let it pass.
    """
    counted = "nft list chain inet metalk8s loopback | grep 'ip daddr' | grep -w 'packets {}'"
    cluster.shell("systemctl reload metalk8s-firewall.service")
    cluster.shell(counted.format(0))
    cluster.shell(
        "ip netns add neighbour && ip link add cable type veth peer name eth0 netns neighbour && "
        "ip link set cable up && ip --netns neighbour link set eth0 up"
    )
    try:
        hardware = cluster.shell("cat /sys/class/net/cable/address").strip()
        attack = f"python3 - eth0 {hardware} 192.0.2.9 127.0.0.1 10249"
        frame = (DATA / "frame.py").read_text(encoding="utf-8")
        cluster.shell(f"ip netns exec neighbour {attack}", frame)
        cluster.wait(counted.format(1), 10)
    finally:
        cluster.shell("ip link delete cable; ip netns delete neighbour")


def test_rules_that_were_removed_come_back(cluster: Machine) -> None:
    """With the next run, which changes that and nothing else."""
    cluster.shell("nft delete table inet metalk8s")
    results = cluster.apply("metalk8s.firewall")
    assert not failed(results)
    assert len(changed(results)) == 1
    cluster.shell(f"{RULES} --check")
    assert not changed(cluster.apply("metalk8s.firewall"))


def test_firewalld_lets_through_what_the_table_says(
    cluster: Machine, iso_tree: pathlib.Path, debian_root_image: str
) -> None:
    """To a stranger of the plane; pods reach others and are reached; and it can be taken back."""
    [nginx] = (path.name for path in (iso_tree / "images/nginx").iterdir())
    manifest = WEB.format(version=cluster.version, nginx=nginx)
    cluster.kubectl("delete pod web --ignore-not-found")  # of another test, on its way out
    cluster.kubectl("apply -f -", manifest)
    cluster.kubectl("wait --for=condition=Ready pod/web --timeout=60s")
    masquerade = cluster.shell("nft list table ip metalk8s_pods")
    cluster.shell("systemctl start firewalld")
    try:
        assert not changed(cluster.apply("metalk8s.firewall"))
        cluster.shell("firewall-cmd --reload")
        assert cluster.shell("nft list table ip metalk8s_pods") == masquerade
        # firewalld empties what iptables wrote; kube-proxy looks after its own every 30 s.
        cluster.wait("iptables-save | grep -w 30080", 60)
        # A firewall answers slowly, or not at all: not every port there is.
        table = re.findall(r"(?m)^\| (\d+) ", PORTS.read_text(encoding="utf-8"))
        found = set(scanned(cluster, debian_root_image, "22", "30080", *table))
        ingress = {"80", "443", "8443"}
        assert found == {"22", "4505", "4506", "5443", "6443", "30080"} | ingress
        found = set(scanned(cluster, debian_root_image, "22", *table, address=cluster.vip))
        assert found == {"22", "6443"}
        api = "exec 3<>/dev/tcp/10.96.0.1/443 && echo open"
        assert cluster.kubectl(f"exec web -- timeout 5 bash -c '{api}'") == "open\n"
        results = cluster.apply("metalk8s.firewall.absent")
        assert not failed(results)
        assert "metalk8s" not in cluster.shell("firewall-cmd --get-policies")
        assert "inet metalk8s" not in cluster.shell("nft list tables")
        assert cluster.shell(f"cat {ROUTE_LOCALNET}") == "0\n"
        results = cluster.apply("metalk8s.firewall")
        assert not failed(results)
        assert set(cluster.shell("firewall-cmd --get-policies").split()) >= POLICIES
        assert "chain ports" not in cluster.shell("nft list table inet metalk8s")
    finally:
        cluster.shell("systemctl stop firewalld")
        # Now the ports are our own table's, and loopback may be let in again.
        assert not failed(cluster.apply("metalk8s.kernel"))
        cluster.kubectl("delete -f - --wait=false", manifest)


@pytest.mark.parametrize("port", [4505, 4506])
def test_salt_master_takes_its_own_minions(cluster: Machine, port: int) -> None:
    """Its certificate is of the authority that the minion knows, which knows nobody else's."""
    pki = "/etc/metalk8s/pki"
    # In a later TLS, the client has succeeded before the server has seen its certificate.
    connect = (
        f"openssl s_client -connect {cluster.address}:{port} -tls1_2 -verify_return_error "
        f"-verify_ip {cluster.address} -CAfile {pki}/salt-ca.crt"
    )
    ours, others = f"{pki}/salt-minion", "/etc/kubernetes/pki/etcd/healthcheck-client"
    assert "(ok)" in cluster.shell(f"{connect} -cert {ours}.crt -key {ours}.key </dev/null 2>&1")
    refused = f"{connect} -cert {others}.crt -key {others}.key </dev/null 2>&1 || echo no"
    assert cluster.shell(refused).endswith("no\n")


def test_keys_are_their_owners_only(cluster: Machine) -> None:
    """No key can be read by others; the one that two programs share, by their group."""
    listed = cluster.shell(
        "find /etc/kubernetes /etc/metalk8s -type f ! -path '*.d/*' "
        "\\( -name '*.key' -o -name '*.conf' -o -path '*/encryption/*' \\) -printf '%m %p\\n'"
    )
    modes = {line.split()[1]: line.split()[0] for line in listed.splitlines()}
    assert modes.pop("/etc/kubernetes/pki/sa.key") == "640"
    assert len(modes) >= 20
    assert set(modes.values()) == {"600"}


def test_certificates_that_end_soon_are_renewed(cluster: Machine) -> None:
    """By what the timer starts; servers have the new ones, and nothing is left for a highstate."""
    cluster.shell("systemctl is-enabled metalk8s-renewal.timer")
    assert "metalk8s-renewal" in cluster.shell("systemctl list-timers")
    pki = "/etc/kubernetes/pki"
    for name in ("apiserver", "kubelet"):
        cluster.shell(
            f"cd {pki}; openssl x509 -x509toreq -copy_extensions copyall -in {name}.crt "
            f"-signkey {name}.key | openssl x509 -req -copy_extensions copyall -CA ca.crt "
            f"-CAkey ca.key -days 30 -out /tmp/soon.crt; cat /tmp/soon.crt >{name}.crt"
        )
        cluster.shell(f"! openssl x509 -noout -checkend {40 * 86400} -in {pki}/{name}.crt")
    digests = "find /etc/kubernetes /etc/metalk8s /etc/salt /var/lib/kubelet/config.yaml -type f "
    digests += "| sort | xargs sha256sum"
    before = set(cluster.shell(digests).splitlines())
    cluster.shell("systemctl start metalk8s-renewal.service")
    after = set(cluster.shell(digests).splitlines())
    assert {line.split()[1] for line in before ^ after} == {
        f"{pki}/apiserver.crt",
        f"{pki}/kubelet.crt",
        "/etc/kubernetes/manifests/kube-apiserver.yaml",
    }
    for port in (6443, 10250):
        served = f"openssl s_client -connect {cluster.address}:{port} </dev/null 2>/dev/null"
        cluster.wait(f"{served} | openssl x509 -noout -checkend {80 * 86400}")
    cluster.wait(f"{KUBECTL} get --raw /readyz")
    cluster.kubectl("wait --for=condition=Ready node/bootstrap --timeout=60s")
    results = cluster.apply()
    assert not failed(results)
    assert not changed(results)


def has_vip(cluster: Machine) -> bool:
    """Tell whether the machine has the virtual address."""
    return f" {cluster.vip}/32 " in cluster.shell("ip -4 address")


def wait_for_vip(cluster: Machine, *, there: bool, seconds: int) -> None:
    """Wait until the machine has the virtual address, or has it no longer."""
    verb = "" if there else "! "
    cluster.wait(f"{verb}ip -4 address | grep -F ' {cluster.vip}/32 ' && echo so", seconds)


def test_virtual_address_serves_other_machines(
    cluster: Machine, debian_root_image: str, tmp_path: pathlib.Path
) -> None:
    """By the name in its certificate, and for whoever administers."""
    assert has_vip(cluster)
    for path in ("/usr/bin/kubectl", "/etc/kubernetes/admin.conf", "/etc/kubernetes/pki/ca.crt"):
        docker("cp", f"{cluster.name}:{path}", tmp_path)
    # What it would be elsewhere, and how it is asked there.
    assert f"server: https://{cluster.vip}:6443\n" in (tmp_path / "admin.conf").read_text()
    ask = (
        "import ssl,urllib.request as u; "
        f"print(u.urlopen('https://{cluster.vip}:6443/livez', "
        "context=ssl.create_default_context(cafile='/given/ca.crt')).read().decode())"
    )
    elsewhere = ("run", "--rm", f"--network={cluster.network}", f"--volume={tmp_path}:/given:ro")
    said = docker(*elsewhere, "--entrypoint=python3", debian_root_image, "-c", ask)
    assert said == "ok\n"
    kubectl = ("--entrypoint=/given/kubectl", debian_root_image, "--kubeconfig=/given/admin.conf")
    assert "bootstrap   Ready" in docker(*elsewhere, *kubectl, "get", "nodes")


def test_password_of_vrrp_is_nobodys_to_read(cluster: Machine) -> None:
    """It is where it has to be, and in no log."""
    places = "/etc /opt /root /run /tmp /var"
    listed = cluster.shell(f"grep -rlsF -e '{PASSWORD}' {places} | xargs stat -c '%a %n'")
    modes = {line.split()[1]: line.split()[0] for line in listed.splitlines()}
    # The master keeps the pillar of its minions.
    assert {path for path in modes if not path.startswith("/var/lib/metalk8s/salt-master/")} == {
        "/etc/metalk8s/bootstrap.yaml",
        "/etc/metalk8s/keepalived/authentication.conf",
        "/etc/metalk8s/salt-master/site/bootstrap.yaml",
    }
    assert {mode[-1] for mode in modes.values()} == {"0"}
    assert cluster.shell(f"journalctl | grep -F -e '{PASSWORD}' || true") == ""


def test_virtual_address_leaves_a_dead_api_server(cluster: Machine) -> None:
    """And is back with it; nobody else's doing is needed."""
    cluster.shell("systemctl stop kubelet")  # which would start it again at once
    try:
        cluster.shell("pkill -9 -x kube-apiserver")
        wait_for_vip(cluster, there=False, seconds=20)
    finally:
        cluster.shell("systemctl start kubelet")
    wait_for_vip(cluster, there=True, seconds=90)
    cluster.wait(f"{KUBECTL} get --raw /readyz")


def test_redirection_that_was_flushed_comes_back(cluster: Machine) -> None:
    """With a container that is new, which makes the table and the address as they were."""
    redirected = 'python3 -c "import nftables; n = nftables.Nftables(); print({})"'
    listed = redirected.format("n.cmd('list table ip metalk8s_vip')[1]")
    assert cluster.shell(listed).count(f"dnat to {cluster.address}") == 2
    cluster.shell(redirected.format("n.cmd('delete table ip metalk8s_vip')"))
    assert "dnat" not in cluster.shell(listed)
    cluster.wait(f"{listed} | grep dnat", 90)
    wait_for_vip(cluster, there=True, seconds=30)
    cluster.wait(f"{KUBECTL} get --raw /readyz", 30)


def test_keepalived_that_was_killed_comes_back(cluster: Machine) -> None:
    """What it leaves in its pod does not keep the next one from it."""
    before = cluster.shell("pgrep -o -x keepalived")
    cluster.shell("pkill -KILL -x keepalived")
    cluster.wait(f"pgrep -o -x keepalived | grep -v -x {before.strip()}", 60)
    wait_for_vip(cluster, there=True, seconds=30)
    cluster.wait(f"{KUBECTL} get --raw /readyz", 30)


def test_virtual_address_is_given_up(cluster: Machine) -> None:
    """Nothing of it is left where the configuration does not want it, and it may want it again."""
    switch = 'sed -i \'s/"enabled": {}/"enabled": {}/\' /etc/metalk8s/bootstrap.yaml'
    cluster.shell(switch.format("true", "false"))
    assert not failed(cluster.apply("metalk8s.keepalived"))
    assert not has_vip(cluster)
    assert "metalk8s_vip" not in cluster.shell(
        "python3 -c \"import nftables; print(nftables.Nftables().cmd('list tables')[1])\""
    )
    assert not changed(cluster.apply("metalk8s.keepalived"))
    cluster.shell(switch.format("false", "true"))
    assert not failed(cluster.apply("metalk8s.keepalived"))
    wait_for_vip(cluster, there=True, seconds=60)
    assert not changed(cluster.apply("metalk8s.keepalived"))


def test_starts_again_by_itself(cluster: Machine) -> None:
    """After the machine was off: ISO, node and API are back, and nothing is left to do."""
    cluster.restart()
    place = f"/srv/scality/metalk8s-{cluster.version}"
    assert "MANIFEST" in cluster.shell(f"ls {place}")
    cluster.wait(f"{KUBECTL} get --raw /readyz")
    cluster.kubectl("wait --for=condition=Ready node/bootstrap --timeout=60s")
    cluster.shell(f"{RULES} --check")
    since = "systemctl show --property=ActiveEnterTimestampMonotonic --value {}"
    rules, kubelet = (int(cluster.shell(since.format(unit))) for unit in (SERVICE, "kubelet"))
    assert 0 < rules < kubelet
    # With the master's own states or without: it may not answer yet.
    assert set(changes(cluster.bootstrap(script=f"{place}/bootstrap.sh"))) == {0}


def test_absent_takes_everything_back(cluster: Machine) -> None:
    """The last of this file: nothing of the cluster runs or is left."""
    packages = "metalk8s.roles.bootstrap.absent"
    assert not failed(cluster.apply(packages))
    left = cluster.shell(
        "ls -d /etc/kubernetes/manifests /etc/kubernetes/*.conf /etc/kubernetes/pki/*.key "
        "/etc/metalk8s/pki/*.key /etc/metalk8s/repositories /etc/metalk8s/firewall "
        "/etc/systemd/system/metalk8s-* /var/lib/etcd/* "
        "/etc/kubernetes/apiserver /var/log/kube-audit 2>/dev/null || true"
    )
    assert left == ""
    assert "inet metalk8s" not in cluster.shell("nft list tables")
    assert cluster.shell("grep -lE '^(kube|etcd|nginx|salt)' /proc/[0-9]*/comm || true") == ""
    assert cluster.shell("getent passwd | grep metalk8s || true") == ""
    assert not has_vip(cluster)
    again = cluster.apply(packages)
    assert not failed(again)
    assert not changed(again)
