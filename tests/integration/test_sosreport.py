"""The plug-in for sos, run by Debian's own sos on what stands for a node, with secrets planted."""

from __future__ import annotations

import pathlib
import tarfile

import pytest

from tests.integration.conftest import run
from tests.integration.test_iso import APT_SOURCE

pytestmark = pytest.mark.integration

# The platform's own certificate tool is not there: any text between the marks is a key to us.
KEY = "cGxhbnRlZC1wcml2YXRlLWtleQ"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2RlIn0.cGxhbnRlZC1zaWduYXR1cmU"
PASSWORD = "planted-hunter2"
POD = (
    '{"items": [{"kind": "Pod", "metadata": {"name": "db-0", "annotations": '
    f'{{"kubectl.kubernetes.io/last-applied-configuration": "{PASSWORD}"}}}}, '
    f'"spec": {{"containers": [{{"env": [{{"name": "X", "value": "{PASSWORD}"}}]}}]}}}}]}}'
)
# A node with everything that must not leave it; the cluster is out of reach, so kubectl is a stub.
NODE = f"""
plant() {{
    mkdir -p "${{1%/*}}"
    cat >"$1"
}}
pem() {{
    printf '%s\\n' '-----BEGIN PRIVATE KEY-----' {KEY} '-----END PRIVATE KEY-----'
}}
pem | plant /etc/kubernetes/pki/ca.key
pem | plant /etc/salt/pki/minion/minion.pem
pem | plant /var/lib/kubelet/pki/kubelet.key
echo 'token: {TOKEN}' | plant /etc/kubernetes/admin.conf
{{
    printf '    - name: DB_PASSWORD\\n      value: {PASSWORD}\\n    note: |\\n'
    pem | sed 's/^/      /'
    echo '    image: kept'
}} | plant /etc/kubernetes/manifests/etcd.yaml
ln -s ../pki/ca.key /etc/kubernetes/manifests/link.yaml
printf '[auth]\\n  password = "{PASSWORD}"\\n' | plant /etc/containerd/config.toml
{{
    echo '2026 stderr F began with {TOKEN}'
    pem | sed 's/^/2026 stderr F /'
    echo '2026 stderr F ready'
}} | plant /var/log/pods/kube-system_etcd-a_1/etcd/0.log
echo '2026 stdout F token: {PASSWORD}' | plant /var/log/pods/shop_db-0_2/db/0.log
plant /usr/local/bin/kubectl <<'END'
#!/bin/sh
case "$*" in
*"get pods"*json*) echo '{POD}' ;;
*json*) echo '{{"items": []}}' ;;
*) echo "asked for: $*" ;;
esac
END
chmod 0755 /usr/local/bin/kubectl
"""


def test_report_has_the_state_and_no_secret(
    base_image: str, iso_tree: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    script = (
        f"{APT_SOURCE}apt-get -q -y --no-install-recommends install metalk8s-sosreport\n{NODE}\n"
        "sos report --batch --only-plugins metalk8s --tmp-dir /report -k metalk8s.all=on,"
        "metalk8s.podlogs=on\n"
        "apt-get -q -y purge metalk8s-sosreport\n"
        "! find /usr/lib/python3 -name 'metalk8s*' | grep .\n"
    )
    options = ["--rm", "--network", "none", "--volume", f"{iso_tree}:/iso:ro"]
    options += ["--volume", f"{tmp_path}:/report"]
    run("docker", "run", *options, base_image, "sh", "-euc", script)
    [report] = tmp_path.glob("sosreport-*.tar.?z")
    with tarfile.open(report) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
        texts = {
            member.name.split("/", 1)[1]: stream.read().decode("utf-8", "replace")
            for member in archive.getmembers()
            if member.isfile() and (stream := archive.extractfile(member))
        }
    assert {
        "etc/containerd/config.toml",
        "etc/kubernetes/manifests/etcd.yaml",
        "sos_commands/metalk8s/logs/kube-system_etcd-a_1_etcd_0.log",
        "sos_commands/metalk8s/logs/shop_db-0_2_db_0.log",
        "sos_commands/metalk8s/objects/secrets",
        "sos_commands/metalk8s/readyz",
        "sos_strings/metalk8s/pods.json",
    } <= names
    assert not [name for name in names if "pki" in name.split("/") or name.endswith("admin.conf")]
    for secret in (KEY, TOKEN.rpartition(".")[2], PASSWORD):
        assert [name for name, text in texts.items() if secret in text] == []
    assert "image: kept" in texts["etc/kubernetes/manifests/etcd.yaml"]
    assert "ready" in texts["sos_commands/metalk8s/logs/kube-system_etcd-a_1_etcd_0.log"]
    assert '"db-0"' in texts["sos_strings/metalk8s/pods.json"]
