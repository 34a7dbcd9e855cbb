"""The first machine of a cluster, from the real ISO: what the highstate makes of a clean one.

The machine is a node of the test bed on a network without a way out. Salt comes to it as a package
of the ISO, and runs without a master.

Runs ``docker``. The fixtures ``iso_tree`` and ``debian_root_image`` come from ``conftest.py``.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.integration import kubeadm
from tests.integration.conftest import ROOT, require, run

pytestmark = pytest.mark.integration

SITE = {
    # the node is a container: its engine's cgroups are not systemd's
    "container_engine": {"cgroup_driver": "cgroupfs", "restrict_oom_score_adj": True},
    # its disk is the whole machine's, which others fill
    "kubelet": {
        "eviction_hard": {
            "imagefs.available": "1%",
            "memory.available": "50Mi",
            "nodefs.available": "1%",
        }
    },
}
TREE = "/srv/scality/metalk8s-{version}"
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
SALT_CALL = "salt-call --local --log-level=critical --out=json"
# As an operator would do it who has nothing but the ISO.
INSTALL_SALT = """
set -eu
cat >/etc/apt/sources.list.d/once.sources <<END
Types: deb
URIs: file:{tree}/packages/debian/metalk8s
Suites: bookworm
Components: main
Signed-By: {tree}/keys/metalk8s.asc
END
apt-get -q update
DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install metalk8s-salt-minion
rm /etc/apt/sources.list.d/once.sources
mkdir -p /etc/metalk8s
"""
MINION = """\
file_client: local
systemd.scope: false
id: bootstrap
pillarenv_from_saltenv: true
file_roots:
  metalk8s-{version}: [{tree}/salt]
pillar_roots:
  metalk8s-{version}: [{tree}/pillar]
"""
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
  selector: {{app: web}}
  ports: [{{port: 80, targetPort: 8080}}]
"""


class Machine:
    """A node of the test bed with the ISO's tree at its place."""

    def __init__(self, name: str, version: str, address: str) -> None:
        self.name, self.version, self.address = name, version, address

    def shell(self, script: str, text: str | None = None) -> str:
        """Run a script on it, for what it prints."""
        return run("docker", "exec", "-i", self.name, "sh", "-c", script, input=text or "")

    def write(self, path: str, text: str) -> None:
        """Write a file on it."""
        self.shell(f"cat >{path}", text)

    def apply(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """Apply the highstate, or what is named: ID and name of the state → result."""
        words = [*SALT_CALL.split(), "state.apply", *arguments, f"saltenv=metalk8s-{self.version}"]
        done = subprocess.run(
            ["docker", "exec", self.name, *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.startswith("{"), done.stdout + done.stderr
        results = json.loads(done.stdout)["local"]
        assert isinstance(results, dict), results
        return {f"{result['__id__']} {result['name']}": result for result in results.values()}

    def sync(self) -> None:
        """Let Salt have the modules of the tree, as before any first state."""
        self.shell(f"{SALT_CALL} saltutil.sync_all saltenv=metalk8s-{self.version}")

    def kubectl(self, arguments: str, text: str | None = None) -> str:
        """Run ``kubectl`` on it as the administrator."""
        return self.shell(f"{KUBECTL} {arguments}", text)

    def wait(self, script: str, seconds: int = 120) -> str:
        """Run a script until it succeeds and prints something."""
        until = time.monotonic() + seconds
        while True:
            argv = ["docker", "exec", self.name, "sh", "-c", script]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode == 0 and done.stdout.strip():
                return done.stdout
            assert time.monotonic() < until, f"{script}: {done.stdout}{done.stderr}"
            time.sleep(1)


def failed(results: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Keep what failed, and why."""
    return {name: result["comment"] for name, result in results.items() if not result["result"]}


def changed(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Keep what changed."""
    return {name: result["changes"] for name, result in results.items() if result["changes"]}


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    """Make a network without a way out."""
    require("docker")
    name = f"metalk8s-test-cluster-{os.getpid()}"
    run("docker", "network", "create", "--internal", name)
    yield name
    run("docker", "network", "rm", name)


@pytest.fixture(scope="module")
def clean(
    network: str, debian_root_image: str, iso_tree: pathlib.Path, version: str
) -> Iterator[Machine]:
    """Start a machine that has Salt and the operator's configuration, and nothing else."""
    tree = TREE.format(version=version)
    lines = (ROOT / "tests/testbed/node/run.args").read_text(encoding="utf-8").splitlines()
    arguments = [line for line in lines if line and not line.startswith("#")]
    name = run(
        *("docker", "run", "--detach", "--hostname=bootstrap", f"--network={network}"),
        *(*arguments, f"--volume={iso_tree}:{tree}:ro", debian_root_image),
    ).strip()
    try:
        inspected = json.loads(run("docker", "inspect", name))[0]
        found = inspected["NetworkSettings"]["Networks"][network]
        machine = Machine(name, version, found["IPAddress"])
        machine.wait("systemctl is-system-running --wait | grep -E 'running|degraded'")
        machine.shell(INSTALL_SALT.format(tree=tree))
        machine.write("/etc/salt/minion", MINION.format(tree=tree, version=version))
        cidr = f"{found['IPAddress'].rpartition('.')[0]}.0/24"
        configuration = {
            "networks": {"controlPlane": ["192.0.2.0/24", cidr], "workloadPlane": cidr},
            "ca": {"minion": "bootstrap"},
            "site": SITE,
        }
        machine.write("/etc/metalk8s/bootstrap.yaml", json.dumps(configuration))
        machine.sync()
        yield machine
    finally:
        run("docker", "rm", "--force", "--volumes", name)


@pytest.fixture(scope="module")
def cluster(clean: Machine) -> Machine:
    """Apply the highstate."""
    results = clean.apply()
    assert not failed(results)
    return clean


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
    names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "repositories")
    for name in names:  # the kubelet tells of its static pods once a minute
        cluster.wait(
            f"{KUBECTL} -n kube-system get pod {name}-bootstrap --no-headers | grep 1/1.*Running"
        )
    cluster.kubectl("-n kube-system rollout status daemonset/kube-proxy --timeout=60s")
    pods = json.loads(cluster.kubectl("-n kube-system get pods -o json"))["items"]
    restarts = {
        pod["metadata"]["name"]: status["restartCount"]
        for pod in pods
        for status in pod["status"]["containerStatuses"]
    }
    assert set(restarts.values()) == {0}, restarts


def test_second_run_changes_nothing(cluster: Machine) -> None:
    """Neither a file nor an object, and no container is another afterwards."""
    before = cluster.shell("ctr --namespace k8s.io tasks list --quiet | sort")
    again = cluster.apply()
    assert not failed(again)
    assert not changed(again)
    assert cluster.shell("ctr --namespace k8s.io tasks list --quiet | sort") == before
    foreseen = cluster.apply("test=True")
    assert not {name for name, result in foreseen.items() if result["result"] is not True}


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
    kubeadm.generate(folder, package, base_image, "bootstrap", cluster.address, kubernetes)
    return folder / "kubernetes"


def test_certificates_are_those_of_kubeadm(cluster: Machine, of_kubeadm: pathlib.Path) -> None:
    """The same files, subjects, names and usages; ours end after 90 days, not after a year."""
    show = "openssl x509 -noout -subject -ext keyUsage,extendedKeyUsage,subjectAltName"
    for theirs in sorted((of_kubeadm / "pki").rglob("*.crt")):
        ours = f"/etc/kubernetes/pki/{theirs.relative_to(of_kubeadm / 'pki')}"
        expected = described(cluster.shell(show, theirs.read_text(encoding="ascii")))
        assert described(cluster.shell(f"{show} -in {ours}")) == expected, ours
        authority = ours.endswith("ca.crt")
        soon = f"openssl x509 -noout -checkend {91 * 86400} -in {ours} || true"
        assert ("will not expire" in cluster.shell(soon)) is authority


def test_kubeconfigs_are_those_of_kubeadm(cluster: Machine, of_kubeadm: pathlib.Path) -> None:
    """The same servers, users and contexts, and the same users in the certificates."""
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


def test_services_listen_on_their_plane_only(cluster: Machine) -> None:
    """On the address of the control plane or on loopback; sshd is the machine's own."""
    listening = cluster.shell("ss --no-header --listening --tcp --numeric --processes")
    where = {
        tuple(line.split()[3].rsplit(":", 1))
        for line in listening.splitlines()
        if "sshd" not in line
    }
    anywhere = {pair for pair in where if not pair[0].startswith(("127.", "[::1]"))}
    ports = {"2379", "2380", "5443", "6443", "10250"}
    assert anywhere == {(cluster.address, port) for port in ports}


def test_keys_are_their_owners_only(cluster: Machine) -> None:
    """No key can be read by others; the one that two programs share, by their group."""
    listed = cluster.shell(
        "find /etc/kubernetes /etc/metalk8s -type f \\( -name '*.key' -o -name '*.conf' "
        "-o -path '*/encryption/*' \\) ! -path '*/conf.d/*' -printf '%m %p\\n'"
    )
    modes = {line.split()[1]: line.split()[0] for line in listed.splitlines()}
    assert modes.pop("/etc/kubernetes/pki/sa.key") == "640"
    assert len(modes) >= 17
    assert set(modes.values()) == {"600"}


def test_renewed_certificate_restarts_its_pod(cluster: Machine) -> None:
    """A certificate that is gone, as one that ends soon, is made anew, and the pod uses it."""
    certificate = "/etc/kubernetes/pki/apiserver.crt"
    before = cluster.shell(f"sha256sum {certificate}; rm {certificate}")
    results = cluster.apply()
    assert not failed(results)
    names = {name.rpartition(" ")[0] for name in changed(results)}
    assert names == {"Sign the certificate of the API server", "Run the API server"}
    assert cluster.shell(f"sha256sum {certificate}") != before
    served = (
        f"openssl s_client -connect {cluster.address}:6443 </dev/null 2>/dev/null "
        "| openssl x509 -outform DER | sha256sum"
    )
    ours = cluster.shell(f"openssl x509 -in {certificate} -outform DER | sha256sum")
    cluster.wait(f'test "$({served})" = "{ours.strip()}" && echo same')


def test_starts_again_by_itself(cluster: Machine) -> None:
    """After the machine was off: the node, the API and the registry are back, and nothing to do."""
    run("docker", "restart", "--time=30", cluster.name)
    cluster.wait("systemctl is-system-running --wait | grep -E 'running|degraded'")
    cluster.wait(f"{KUBECTL} get --raw /readyz")
    results = cluster.apply()
    assert not failed(results)
    assert not changed(results)
    cluster.kubectl("wait --for=condition=Ready node/bootstrap --timeout=60s")


def test_absent_takes_everything_back(cluster: Machine) -> None:
    """The last of this file: nothing of the cluster runs or is left."""
    packages = "metalk8s.roles.bootstrap.absent"
    assert not failed(cluster.apply(packages))
    left = cluster.shell(
        "ls -d /etc/kubernetes/manifests /etc/kubernetes/*.conf /etc/kubernetes/pki/*.key "
        "/etc/metalk8s/pki/*.key /etc/metalk8s/repositories /var/lib/etcd/* 2>/dev/null || true"
    )
    assert left == ""
    assert cluster.shell("grep -lE '^(kube|etcd|nginx)' /proc/[0-9]*/comm || true") == ""
    assert cluster.shell("getent passwd | grep metalk8s || true") == ""
    again = cluster.apply(packages)
    assert not failed(again)
    assert not changed(again)
