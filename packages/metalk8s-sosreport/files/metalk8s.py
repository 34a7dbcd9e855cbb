"""MetalK8s for ``sos report``: what a node runs, and what the cluster says of itself.

Works with sos 4.0 and newer, on Python 3.6 and newer (EL 8). Options, as ``-k metalk8s.<option>``:
``all`` adds the Kubernetes objects in full, ``podlogs`` the logs of all pods. ``--all-logs`` takes
logs whole instead of their ends.

No secret is collected. Only files that are named below are copied: no key, no kubeconfig is among
them, and links are left out. Secrets and ConfigMaps are listed by name, never by content. What may
still hold a secret (a password in a configuration file, a token in a log) is masked after the
collection, hence ``--no-postproc`` is for reports that stay on the machine.
"""

import json
import pathlib
import re

from sos.report.plugins import DebianPlugin, Plugin, RedHatPlugin

try:
    from sos.report.plugins import PluginOpt
except ImportError:
    # Before sos 4.3 options are tuples.
    PluginOpt = None

MASK = "********"

OPTIONS = (
    ("all", "Kubernetes objects in full, without the contents of Secrets and ConfigMaps"),
    ("podlogs", "logs of all pods, not only those of the platform"),
)

FILES = (
    "/etc/cni/net.d/*.conf",
    "/etc/cni/net.d/*.conflist",
    "/etc/containerd/*.toml",
    "/etc/containerd/certs.d/*/hosts.toml",
    "/etc/default/kubelet",
    "/etc/kubernetes/manifests/*",
    "/etc/metalk8s/*.yaml",
    "/etc/salt/master",
    "/etc/salt/master.d/*.conf",
    "/etc/salt/minion",
    "/etc/salt/minion.d/*.conf",
    "/etc/sysconfig/kubelet",
    "/etc/systemd/system/containerd.service.d/*.conf",
    "/etc/systemd/system/kubelet.service.d/*.conf",
    "/srv/scality/*/product.txt",
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
)
CERTIFICATES = (
    "/etc/kubernetes/pki/*.crt",
    "/etc/kubernetes/pki/etcd/*.crt",
    "/var/lib/kubelet/pki/*.crt",
    "/var/lib/kubelet/pki/*-current.pem",
)
# Of one instance of one container; bytes.
LOG_END = 2000000
PLATFORM_LOGS = ("/var/log/pods/kube-*/*/*.log", "/var/log/pods/metalk8s-*/*/*.log")
ALL_LOGS = ("/var/log/pods/*/*/*.log",)

COMMANDS = (
    "containerd --version",
    "ctr --namespace k8s.io containers list",
    "ctr --namespace k8s.io images list",
    "ctr --namespace k8s.io tasks list",
    "ctr namespaces list",
    "ctr plugins list",
    "ctr version",
    "kubelet --version",
    "ls -lR /etc/cni /etc/kubernetes /opt/cni /srv/scality /var/lib/kubelet/pki",
    "ls -l /var/lib/etcd /var/lib/etcd/member/snap /var/lib/etcd/member/wal",
    "runc --version",
    "runc --root /run/containerd/runc/k8s.io list",
    "salt-call --version",
)

KUBECTL = "kubectl --kubeconfig=/etc/kubernetes/admin.conf --request-timeout=20s"
# Listed as tables, which hold no contents.
LISTED = (
    "apiservices",
    "clusterrolebindings",
    "clusterroles",
    "configmaps",
    "csr",
    "customresourcedefinitions",
    "mutatingwebhookconfigurations",
    "rolebindings",
    "roles",
    "secrets",
    "serviceaccounts",
    "validatingwebhookconfigurations",
)
# Listed as tables too, and in full with the option `all`.
OBJECTS = (
    "cronjobs",
    "daemonsets",
    "deployments",
    "endpoints",
    "events",
    "horizontalpodautoscalers",
    "ingresses",
    "jobs",
    "leases",
    "limitranges",
    "namespaces",
    "networkpolicies",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets",
    "pods",
    "priorityclasses",
    "replicasets",
    "resourcequotas",
    "services",
    "statefulsets",
    "storageclasses",
    "volumeattachments",
)

ETCD_KEYS = "/etc/kubernetes/pki/etcd"
ETCDCTL = (
    f"etcdctl --endpoints=https://127.0.0.1:2379 --cacert={ETCD_KEYS}/ca.crt"
    f" --cert={ETCD_KEYS}/healthcheck-client.crt --key={ETCD_KEYS}/healthcheck-client.key"
    " --write-out=table"
)
ETCD_QUESTIONS = (
    "alarm list",
    "endpoint health --cluster",
    "endpoint status --cluster",
    "member list",
)

# Of Kubernetes objects.
CONTENTS = ("binaryData", "data", "stringData")
LEFT_OUT = ("kubectl.kubernetes.io/last-applied-configuration", "managedFields")

# The end of a name that has a secret as its value.
WORDS = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|authorization|\bauth"
    r"|(?:api|access|private|secret|encryption)[-_]?key|key[-_]data)"
)
# That with (maybe within a quoted text, a quote and) a colon or equals sign.
NAME = WORDS + r"\\*[\"']?[ \t]*[:=]"
# What may stand before it, of bounded length: the time must not grow with its square.
START = r"[\"']?[\w.-]{0,250}"
# The last one is a text within a quoted text.
QUOTED = r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|\\+\".*?\\+\""
# Not followed by a mere setting, or by the beginning of a nested one.
NESTED = r"[\[{][ \t]*(?:[\"'\[{\]}]|$)|$"
NO_SETTING = r"(?![ \t]*(?:(?:true|false|null|none)[ \t,]*(?:#.*)?$|" + NESTED + "))"
NO_SETTING_INSIDE = r"(?![ \t]*(?:(?:true|false|null|none)[ \t]*(?:[,}\]]|$)|" + NESTED + "))"
# Pairs of what to look for and what to put in its place, applied in this order.
MASKS = (
    # PEM, also when a log or a file was cut within it.
    (
        r"(?s)-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)",
        r"-----BEGIN \1-----" + MASK,
    ),
    (
        r"(?s)\A(?:(?!-----BEGIN).)*?-----END ([A-Z0-9 ]*PRIVATE KEY)-----",
        MASK + r"-----END \1-----",
    ),
    # PEM in base64, as in kubeconfigs.
    (r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]+", MASK),
    # JSON Web Tokens: those of service accounts and of OpenID Connect.
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?", MASK),
    # Bootstrap tokens; their first half is public.
    (r"\b([a-z0-9]{6})\.[a-z0-9]{16}\b", r"\1." + MASK),
    (r"(?i)\b(basic|bearer)[ \t]+[A-Za-z0-9+/._~=-]{6,}", r"\1 " + MASK),
    # user:password@host
    (r"(://[^/\s:@\"']*):[^/\s@\"']+@", r"\1:" + MASK + "@"),
    # YAML block: the lines below `password: |`.
    (
        r"(?im)^([ \t]*)("
        + START
        + NAME
        + r"[ \t]*[|>][-+0-9]*)[ \t]*\n(?:\1[ \t]+.*(?:\n|\Z)|[ \t]*\n)+",
        r"\1\2 " + MASK + r"\n",
    ),
    # Environment of a container in YAML: the line after a name.
    (
        r"(?im)^([ \t-]*name:[ \t]*" + START + "(?:" + WORDS + r"|key)[\w.-]{0,250}[\"']?[ \t]*\n"
        r"([ \t]*)value:)[^\n]*\n(?:\2[ \t]+.*(?:\n|\Z))*",
        r"\1 " + MASK + r"\n",
    ),
    # A line that is one name and its value; a value anywhere else ends where the word does.
    (
        r"(?im)^([ \t]*(?:- +)?" + START + NAME + NO_SETTING + r"[ \t]*)(?:" + QUOTED + r"|[^\n]+)",
        r"\1" + MASK,
    ),
    (
        r"(?im)(" + NAME + NO_SETTING_INSIDE + r"[ \t]*)(?:" + QUOTED + r"|[^\s,}\]\"']+)",
        r"\1" + MASK,
    ),
)


def mask(text):
    """Return the text without what looks like a secret."""
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return text


def masked(value, name=""):
    """Return a Kubernetes object, or the part of one with this name, without what may be a secret.

    The environment of a container is masked whatever its names are. The copies of an object that
    its own annotations hold are left out.
    """
    if isinstance(value, list) and name in ("env", "httpHeaders"):
        return [dict(item, value=MASK) if "value" in item else item for item in value]
    if isinstance(value, list):
        # `--password`, `word`: two arguments.
        before = [""] + [item if isinstance(item, str) else "" for item in value[:-1]]
        return list(map(masked, value, before))
    if isinstance(value, dict):
        if value.get("kind") in ("ConfigMap", "Secret"):
            value = {key: part for key, part in value.items() if key not in CONTENTS}
        return {key: masked(part, key) for key, part in value.items() if key not in LEFT_OUT}
    if isinstance(value, str):
        return MASK if re.search(WORDS + r"\Z", name, re.IGNORECASE) else mask(value)
    return value


class MetalK8s(Plugin, DebianPlugin, RedHatPlugin):
    """Node and cluster of MetalK8s."""

    short_desc = "MetalK8s node and cluster"

    plugin_name = "metalk8s"
    profiles = ("container", "cluster")
    packages = ("kubelet",)
    files = ("/etc/kubernetes", "/etc/metalk8s")

    if PluginOpt is None:
        option_list = [(name, text, "slow", False) for name, text in OPTIONS]
    else:
        option_list = [PluginOpt(name, default=False, desc=text) for name, text in OPTIONS]

    def setup(self):
        for path in self.find(FILES):
            # sos copies what a link leads to, even where it is told not to go.
            if not pathlib.Path(self.join_sysroot(path)).is_symlink():
                # The end of a large file would be added in a way that no mask reaches.
                self.add_copy_spec(path, tailit=False)
        for unit in ("containerd", "kubelet", "salt-minion"):
            self.add_journal(units=unit)
        self.add_cmd_output(list(COMMANDS))
        self.add_cmd_output(
            [
                "openssl x509 -noout -subject -issuer -dates -in " + path
                for path in self.find(CERTIFICATES)
            ],
            subdir="certificates",
        )
        self.add_logs()
        if self.find(("/etc/kubernetes/admin.conf",)):
            self.add_cluster()
        if self.find((ETCD_KEYS + "/healthcheck-client.key",)):
            self.add_cmd_output([f"{ETCDCTL} {words}" for words in ETCD_QUESTIONS], subdir="etcd")

    def find(self, patterns):
        """Return the paths that are there, as seen in the system that is reported on."""
        root = pathlib.Path(self.join_sysroot("/"))
        paths = [str(path) for pattern in patterns for path in root.glob(pattern.lstrip("/"))]
        return sorted(self.strip_sysroot(path) for path in paths)

    def add_logs(self):
        """Add logs of pods, as commands: masks reach those however long they are."""
        reader = "cat" if self.get_option("all_logs") else f"tail --bytes={LOG_END}"
        for path in self.find(ALL_LOGS if self.get_option("podlogs") else PLATFORM_LOGS):
            name = path[len("/var/log/pods/") :].replace("/", "_")
            self.add_cmd_output(f"{reader} {path}", suggest_filename=name, subdir="logs")

    def add_cluster(self):
        """Add what the API server says, unless it does not answer."""
        self.add_cmd_output(KUBECTL + " get --raw /readyz?verbose", suggest_filename="readyz")
        if self.exec_cmd(KUBECTL + " version", timeout=30)["status"] != 0:
            return
        self.add_cmd_output([KUBECTL + " version", KUBECTL + " describe nodes"])
        for kind in sorted(LISTED + OBJECTS):
            words = f"get {kind} --all-namespaces --output=wide --show-labels"
            self.add_cmd_output(f"{KUBECTL} {words}", suggest_filename=kind, subdir="objects")
        if self.get_option("all"):
            for kind in OBJECTS:
                self.add_objects(kind)

    def add_objects(self, kind):
        """Add all objects of a kind in full, masked before they are anywhere."""
        words = f"get {kind} --all-namespaces --output=json"
        said = self.exec_cmd(f"{KUBECTL} {words}", timeout=60)
        # sos 4.0 puts warnings before it.
        start = max(said["output"].find("{"), 0)
        try:
            objects, _ = json.JSONDecoder().raw_decode(said["output"], start)
        except ValueError:
            self._log_warn(f"{kind}: not JSON, exit {said['status']}")
            return
        self.add_string_as_file(
            json.dumps(masked(objects), indent=1, sort_keys=True), f"{kind}.json"
        )

    def postproc(self):
        for pattern, replacement in MASKS:
            self.do_cmd_output_sub("*", pattern, replacement)
            self.do_path_regex_sub(r".*", pattern, replacement)
