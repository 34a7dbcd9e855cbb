"""The Kubernetes API, which is stood in for where HTTP begins."""

from __future__ import annotations

import base64
import copy
import http.client
import itertools
import json
import pathlib
import ssl
import types
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from .loader import load

RESOURCES = {
    "/api/v1": [
        {"name": "nodes", "kind": "Node", "namespaced": False},
        {"name": "namespaces", "kind": "Namespace", "namespaced": False},
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
        {"name": "nodes/proxy", "kind": "NodeProxyOptions", "namespaced": False},
    ],
    "/apis/apps/v1": [{"name": "daemonsets", "kind": "DaemonSet", "namespaced": True}],
}
PLURALS = {resource["name"] for resources in RESOURCES.values() for resource in resources}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "kube-system"},
    "data": {"a": "1"},
}
CONFIG_PATH = "/api/v1/namespaces/kube-system/configmaps/c"


def merged(there: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7386)."""
    result = {key: value for key, value in there.items() if patch.get(key, value) is not None}
    for key, value in patch.items():
        if isinstance(value, dict):
            result[key] = merged(result.get(key) or {}, value)
        elif value is not None:
            result[key] = value
    return result


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Cluster:
    """An API server: objects by path, merged as server-side apply does for fields we own."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.down = False
        self.refuses = ""
        self.busy = 0
        self.away: list[int] = []  # status of each answer to come; 0 without one
        self.answers_first = 0  # before that
        self.version = 0
        self.before_merge: Callable[[], None] = lambda: None

    def is_gone(self) -> bool:
        """Tell whether the next question has no answer."""
        if self.answers_first or not self.away or self.away[-1]:
            return False
        return self.away.pop() == 0

    def trouble(self) -> tuple[int, Any] | None:
        """Answer in place of what was asked for."""
        if self.busy:
            self.busy -= 1
            return 429, {"kind": "Status", "message": "too many requests"}
        if self.away and self.answers_first:
            self.answers_first -= 1
        elif self.away:
            return self.away.pop(), {"kind": "Status", "message": "etcdserver: leader changed"}
        return None

    def answer(self, method: str, target: str, body: Any, content: str) -> tuple[int, Any]:
        url = urllib.parse.urlsplit(target)
        self.asked.append((method, target, content))
        if trouble := self.trouble():
            return trouble
        if url.path == "/readyz":
            return 200, "ok"
        if url.path.rpartition("/")[2] in PLURALS:
            return 200, {"items": self.listed(url.path)}
        if url.path.startswith("/apis/gone"):
            return 404, {"kind": "Status", "message": "not found"}
        if url.path in RESOURCES:
            return 200, {"resources": RESOURCES[url.path]}
        if self.refuses and method == "PATCH":
            return 422, {"kind": "Status", "message": self.refuses}
        if method == "PATCH" and content == "application/merge-patch+json":
            return self.merge(url.path, body)
        if method == "PATCH":
            return 200, self.patch(url, body)
        if url.path not in self.objects:
            return 404, {"kind": "Status", "message": "not found"}
        return self.change(method, url.path, body)

    def change(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "PUT":
            return self.put(path, body)
        return 200, self.objects.pop(path) if method == "DELETE" else self.objects[path]

    def listed(self, path: str) -> list[Any]:
        """List what is in a namespace, or in all of them."""
        folder, _, plural = path.rpartition("/")
        return [
            one
            for other, one in self.objects.items()
            if other.startswith(folder) and other.split("/")[-2] == plural
        ]

    def put(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.before_merge()
        there = self.objects[path]["metadata"]
        if body["metadata"].get("resourceVersion") != there["resourceVersion"]:
            return 409, {"kind": "Status", "message": "the object has been modified"}
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        self.objects[path] = {**copy.deepcopy(body), "metadata": metadata}
        return 200, self.objects[path]

    def merge(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.before_merge()
        there = self.objects[path]
        if body["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"]:
            return 409, {"kind": "Status", "message": "the object has been modified"}
        self.version += 1
        self.objects[path] = merged(there, body)
        self.objects[path]["metadata"]["resourceVersion"] = str(self.version)
        return 200, self.objects[path]

    def patch(self, url: urllib.parse.SplitResult, body: dict[str, Any]) -> dict[str, Any]:
        there = copy.deepcopy(self.objects.get(url.path, {"metadata": {}}))
        for part, values in body.items():
            if isinstance(values, dict):
                there[part] = {**there.get(part, {}), **values}
            else:
                there[part] = values
        self.version += 1
        there["metadata"] = {
            **there["metadata"],
            "resourceVersion": str(self.version),
            "managedFields": [self.version],
        }
        if "dryRun=All" not in url.query:
            self.objects[url.path] = there
        return there


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Answer every connection, and look at how it is secured."""
    found = Cluster()

    class Connection:
        def __init__(self, host: str, port: int, context: Any, timeout: float) -> None:
            assert (host, port, context.trusted) == ("10.0.0.1", 6443, "authority")
            assert context.own == b"certificatekey"

        def request(self, method: str, path: str, body: str | None, headers: Any) -> None:
            if found.down or found.is_gone():
                raise ConnectionRefusedError("refused")
            document = None if body is None else json.loads(body)
            self.status, self.said = found.answer(method, path, document, headers["Content-Type"])

        def getresponse(self) -> Any:
            text = self.said if isinstance(self.said, str) else json.dumps(self.said)
            return types.SimpleNamespace(
                status=self.status, read=text.encode, getheader=lambda name: "0.01"
            )

        def close(self) -> None:
            pass

    def context(cadata: str) -> Any:
        made = types.SimpleNamespace(trusted=cadata)

        def load_chain(file: str) -> None:
            path = pathlib.Path(file)
            assert path.stat().st_mode & 0o777 == 0o600
            made.own = path.read_bytes()

        made.load_cert_chain = load_chain
        return made

    monkeypatch.setattr(http.client, "HTTPSConnection", Connection)
    monkeypatch.setattr(ssl, "create_default_context", context)
    return found


@pytest.fixture
def kubernetes(tmp_path: pathlib.Path, cluster: Cluster) -> Iterator[Any]:
    """Load the module, with a kubeconfig and a folder for what OpenSSL must read from a file."""
    plan = load("_modules/metalk8s_marks").plan
    salt = {"metalk8s_marks.plan": plan}
    module = load("_modules/metalk8s_kubernetes", salt=salt, context={})
    document = {
        "clusters": [
            {
                "cluster": {
                    "server": "https://10.0.0.1:6443",
                    "certificate-authority-data": encoded("authority"),
                }
            }
        ],
        "users": [
            {
                "user": {
                    "client-certificate-data": encoded("certificate"),
                    "client-key-data": encoded("key"),
                }
            }
        ],
    }
    file = tmp_path / "admin.conf"
    file.write_text(yaml.safe_dump(document))
    folder = tmp_path / "run"
    folder.mkdir()
    module.PRIVATE = str(folder)
    module.ADMINISTRATOR = str(file)
    yield module
    assert list(folder.iterdir()) == []


def test_apply_creates_then_leaves_alone(kubernetes: Any, cluster: Cluster) -> None:
    """The second time the dry run says that nothing would change, and nothing is sent."""
    assert list(kubernetes.apply([CONFIG])) == ["ConfigMap/kube-system/c"]
    assert cluster.objects[CONFIG_PATH]["data"] == {"a": "1"}
    cluster.asked.clear()
    assert kubernetes.apply([CONFIG]) == {}
    patches = [target for method, target, _ in cluster.asked if method == "PATCH"]
    assert patches == [f"{CONFIG_PATH}?fieldManager=metalk8s&force=true&dryRun=All"]


def test_apply_changes_what_differs(kubernetes: Any, cluster: Cluster) -> None:
    """Others' fields stay."""
    kubernetes.apply([CONFIG])
    cluster.objects[CONFIG_PATH]["data"] = {"a": "2", "b": "theirs"}
    changes = kubernetes.apply([CONFIG])["ConfigMap/kube-system/c"]
    assert changes["old"]["data"]["a"] == "2"
    assert changes["new"]["data"]["a"] == "1"
    assert "managedFields" not in changes["new"]["metadata"]
    assert cluster.asked[-1][2] == "application/apply-patch+yaml"


def test_apply_in_test_mode_sends_dry_runs_only(kubernetes: Any, cluster: Cluster) -> None:
    """Also for what is not there yet."""
    assert kubernetes.apply([CONFIG], test=True)["ConfigMap/kube-system/c"]["old"] is None
    assert cluster.objects == {}
    kubernetes.apply([CONFIG])
    other = {**CONFIG, "data": {"a": "3"}}
    assert kubernetes.apply([other], test=True)["ConfigMap/kube-system/c"]["new"]["data"] == {
        "a": "3"
    }
    assert cluster.objects[CONFIG_PATH]["data"] == {"a": "1"}


def test_what_the_server_refuses_is_quoted(kubernetes: Any, cluster: Cluster) -> None:
    """The error carries the status too."""
    cluster.refuses = "data.a: Invalid value"
    with pytest.raises(kubernetes.ApiError, match="Invalid value") as caught:
        kubernetes.apply([CONFIG])
    assert caught.value.status == 422
    with pytest.raises(kubernetes.ApiError, match="no Pawn of v1"):
        kubernetes.apply([{"apiVersion": "v1", "kind": "Pawn", "metadata": {"name": "p"}}])


def test_get_and_delete(kubernetes: Any, cluster: Cluster) -> None:
    """What is not there is no error; namespaces are never deleted."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}}
    unknown = {"apiVersion": "gone.io/v1", "kind": "Pawn", "metadata": {"name": "p"}}
    kubernetes.apply([namespace, CONFIG, daemons])
    assert kubernetes.get("v1", "ConfigMap", "c", "kube-system")["data"] == {"a": "1"}
    everything = [namespace, CONFIG, daemons, unknown]
    assert kubernetes.delete(everything, test=True) == ["DaemonSet/d", "ConfigMap/kube-system/c"]
    assert kubernetes.delete(everything) == ["DaemonSet/d", "ConfigMap/kube-system/c"]
    assert kubernetes.delete(everything) == []
    assert kubernetes.get("v1", "ConfigMap", "c", "kube-system") is None
    assert list(cluster.objects) == ["/api/v1/namespaces/kube-system"]


def test_list_objects(kubernetes: Any, cluster: Cluster) -> None:
    """Of a namespace or of all of them; there may be none."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
    other = {**CONFIG, "metadata": {"name": "d", "namespace": "other"}}
    kubernetes.apply([namespace, CONFIG, other])

    def names(*arguments: str) -> list[str]:
        return [one["metadata"]["name"] for one in kubernetes.list_objects("v1", *arguments)]

    assert names("ConfigMap") == ["c", "d"]
    assert names("ConfigMap", "other") == ["d"]
    assert names("Namespace") == ["kube-system"]
    assert names("Node", "ignored") == []
    assert cluster.asked[-1][1] == "/api/v1/nodes"


def test_replace(kubernetes: Any, cluster: Cluster) -> None:
    """Whole: what is left out is gone; and nothing over what another has written meanwhile."""
    kubernetes.apply([CONFIG])
    read = kubernetes.get("v1", "ConfigMap", "c", "kube-system")
    changed = kubernetes.replace({**read, "data": {"b": "2"}})
    assert cluster.objects[CONFIG_PATH]["data"] == changed["data"] == {"b": "2"}
    assert kubernetes.replace({**read, "data": {"c": "3"}}) is None
    assert cluster.objects[CONFIG_PATH]["data"] == {"b": "2"}
    assert kubernetes.replace({**changed, "data": {}})["data"] == {}
    absent = {**CONFIG, "metadata": {"name": "x", "namespace": "kube-system"}}
    with pytest.raises(kubernetes.ApiError, match="not found"):
        kubernetes.replace(absent)


def test_the_key_is_kept_in_memory_where_run_is_not_ours(
    kubernetes: Any, cluster: Cluster, tmp_path: pathlib.Path
) -> None:
    """In a pod, the root is read-only."""
    other = tmp_path / "shm"
    other.mkdir()
    kubernetes.PRIVATE, kubernetes.SHARED = str(tmp_path / "nothing"), str(other)
    assert kubernetes.ready()
    assert list(other.iterdir()) == []


def test_ready(kubernetes: Any, cluster: Cluster) -> None:
    """No answer is no error."""
    assert kubernetes.ready() is True
    cluster.down = True
    assert kubernetes.ready() is False
    with pytest.raises(kubernetes.ApiError, match=r"10\.0\.0\.1:6443 does not answer"):
        kubernetes.get("v1", "Node", "n")


NODE = {
    "metadata": {"name": "n", "labels": {"a": "1", "b": "2"}, "resourceVersion": "7"},
    "spec": {"taints": [{"key": "theirs", "effect": "NoSchedule"}]},
}
TAINT = {"key": "ours", "effect": "NoSchedule"}


def test_mark_node(kubernetes: Any, cluster: Cluster) -> None:
    """A dry run sends nothing; the second time, nothing is missing."""
    cluster.objects["/api/v1/nodes/n"] = copy.deepcopy(NODE)
    wanted = ({"a": "1", "c": ""}, {"x": "y"}, [TAINT])
    changes = kubernetes.mark_node("n", *wanted, test=True)
    assert (changes["labels"], changes["taints"]) == ({"c": ""}, [TAINT])
    assert [method for method, *_ in cluster.asked if method == "PATCH"] == []
    assert kubernetes.mark_node("n", *wanted) == changes
    taints = cluster.objects["/api/v1/nodes/n"]["spec"]["taints"]
    assert taints == [*NODE["spec"]["taints"], TAINT]
    assert kubernetes.mark_node("n", *wanted) == {}
    with pytest.raises(kubernetes.ApiError, match="not found"):
        kubernetes.mark_node("other", *wanted)


def test_a_taint_that_comes_meanwhile_stays(kubernetes: Any, cluster: Cluster) -> None:
    """The node controller adds taints at any time, also between reading and writing."""
    cluster.objects["/api/v1/nodes/n"] = copy.deepcopy(NODE)
    other = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}

    def taint() -> None:
        node = cluster.objects["/api/v1/nodes/n"]
        node["spec"]["taints"].append(other)
        node["metadata"]["resourceVersion"] = "8"
        cluster.before_merge = lambda: None

    cluster.before_merge = taint
    kubernetes.mark_node("n", {}, {}, [TAINT])
    taints = cluster.objects["/api/v1/nodes/n"]["spec"]["taints"]
    assert taints == [*NODE["spec"]["taints"], other, TAINT]


def test_a_node_that_never_rests_is_an_error(kubernetes: Any, cluster: Cluster) -> None:
    """After ten attempts, with what the API server says."""
    cluster.objects["/api/v1/nodes/n"] = copy.deepcopy(NODE)
    versions = itertools.count(8)

    def change() -> None:
        node = cluster.objects["/api/v1/nodes/n"]
        node["metadata"]["resourceVersion"] = str(next(versions))

    cluster.before_merge = change
    with pytest.raises(kubernetes.ApiError, match="has been modified"):
        kubernetes.mark_node("n", {}, {}, [TAINT])


def test_applying_outlasts_an_outage(
    kubernetes: Any, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it begins; reading does not wait, nor does a test, nor does it take for ever."""
    monkeypatch.setattr(kubernetes, "PAUSE", 0.01)
    for asked in range(4):
        cluster.objects.clear()
        cluster.away, cluster.answers_first = [503, 0, 500, 0], asked
        assert list(kubernetes.apply([CONFIG])) == ["ConfigMap/kube-system/c"]
        assert cluster.objects[CONFIG_PATH]["data"] == {"a": "1"}
    cluster.away = [0, 0, 0]
    with pytest.raises(kubernetes.ApiError, match="does not answer"):
        kubernetes.apply([CONFIG], test=True)
    with pytest.raises(kubernetes.ApiError, match="does not answer"):
        kubernetes.get("v1", "ConfigMap", "c", "kube-system")
    cluster.away, cluster.down = [], True
    monkeypatch.setattr(kubernetes, "OUTAGE", 0.05)
    with pytest.raises(kubernetes.ApiError, match="does not answer"):
        kubernetes.apply([CONFIG])
    # Who has waited in vain does not wait for the next objects, until there is an answer.
    monkeypatch.setattr(kubernetes, "OUTAGE", 3600)
    for _ in range(2):
        with pytest.raises(kubernetes.ApiError, match="does not answer"):
            kubernetes.apply([CONFIG])
    cluster.down = False
    kubernetes.apply([CONFIG])
    cluster.away = [0]
    kubernetes.apply([{**CONFIG, "data": {"a": "2"}}])


def test_a_busy_server_is_asked_again(kubernetes: Any, cluster: Cluster) -> None:
    """As often as it says that it is, up to a limit."""
    cluster.busy = 3
    assert list(kubernetes.apply([CONFIG])) == ["ConfigMap/kube-system/c"]
    cluster.busy = 1000
    with pytest.raises(kubernetes.ApiError, match="too many requests"):
        kubernetes.get("v1", "Node", "n")


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([{"type": "Ready", "status": "True", "message": "fine"}], ""),
        ([{"type": "Ready", "status": "False", "message": "no network"}], "no network"),
        ([], "it has not said anything yet"),
        (None, "there is no such node"),
    ],
)
def test_why_not_ready(kubernetes: Any, cluster: Cluster, conditions: Any, reason: str) -> None:
    """In the kubelet's own words."""
    if conditions is not None:
        cluster.objects["/api/v1/nodes/n"] = {"status": {"conditions": conditions}}
    assert kubernetes.why_not_ready("n") == reason


def state(functions: dict[str, Any], test: bool = False) -> Any:
    prefixed = {f"metalk8s_kubernetes.{name}": function for name, function in functions.items()}
    prefixed["slsutil.renderer"] = lambda **arguments: "---\na: 1\n---\n---\nb: 2\n"
    module = load("_states/metalk8s_kubernetes", salt=prefixed, opts={"test": test})
    module.PAUSE = 0.01
    return module


@pytest.mark.parametrize(
    ("test", "changes", "result"),
    [(False, {}, True), (True, {}, True), (False, {"x": 1}, True), (True, {"x": 1}, None)],
)
def test_applied(test: bool, changes: dict[str, Any], result: bool | None) -> None:
    """Every document of the file is an object; empty ones are none."""
    seen = []

    def apply(objects: Any, test: bool) -> dict[str, Any]:
        seen.append((objects, test))
        return changes

    answer = state({"apply": apply}, test).applied("objects", source="salt://x", context={})
    assert (answer["result"], answer["changes"]) == (result, changes)
    assert seen == [([{"a": 1}, {"b": 2}], test)]


def test_applied_says_why_it_fails() -> None:
    """With the name of the error, which a search finds."""

    def refuse(objects: Any, test: bool) -> None:
        raise OSError("no")

    answer = state({"apply": refuse}).applied("objects", source="salt://x", context={})
    assert (answer["result"], answer["comment"]) == (False, "OSError: no")


def test_deleted() -> None:
    """Without an API server there is nothing to delete."""
    gone = lambda objects, test: ["B", "A"]  # noqa: E731
    answer = state({"ready": lambda: True, "delete": gone}).deleted("o", source="s", context={})
    assert answer["changes"] == {"deleted": ["B", "A"]}
    answer = state({"ready": lambda: False}).deleted("o", source="s", context={})
    assert (answer["result"], answer["changes"]) == (True, {})


def test_waits() -> None:
    """Until it is so, or until the time is over; not at all in test mode."""
    answers = iter([False, True])
    assert state({"ready": lambda kubeconfig: next(answers)}).answers("k")["result"] is True
    never = {"ready": lambda kubeconfig: False, "why_not_ready": lambda name: "no network"}
    assert state(never).answers("k", timeout=0)["result"] is False
    assert state(never, test=True).answers("k", timeout=0)["result"] is True
    late = state(never).node_ready("n", timeout=0)
    assert (late["result"], late["comment"]) == (False, "Node n is not ready after 0 s: no network")
    assert state({"why_not_ready": lambda name: ""}).node_ready("n")["result"] is True


def test_node_marked() -> None:
    """It waits for the node to register itself."""
    answers = iter([OSError("not yet"), {"labels": {"a": ""}}])

    def mark(*arguments: Any, test: bool) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    answer = state({"mark_node": mark}).node_marked("n", labels={"a": ""})
    assert (answer["result"], answer["changes"]) == (True, {"labels": {"a": ""}})
    answers = iter([OSError("not there")])
    assert state({"mark_node": mark}).node_marked("n", timeout=-1)["result"] is False
