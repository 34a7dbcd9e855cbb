"""Machines join the cluster and leave it: a plan, carried out step by step, with a journal.

For the Salt master (``salt-run``), which has a kubeconfig that may read Nodes and write the journal
and the lease. Who deploys calls ``begin``, each ``step`` in its order, and ``end``; between two of
them nobody has to be alive. A step that was done is not done again by the next run for the same
machine; any number of runs may be begun, only one at a time is.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from salt.exceptions import CommandExecutionError

JOURNAL = ("v1", "ConfigMap", "metalk8s-journal", "kube-system")
STORING = {"bootstrap", "etcd"}
PAUSE = 1.0  # second between two looks at what the API server has
OUTAGE = 120  # seconds that it may be away while something is done: it may be what is done
# Advice after what the machine itself has to do to leave.
GONE = ". If the machine is dead, or ours has left it already, remove it as a dead one"
READY = 600  # seconds until a Node is ready, as for pods: images may have to be unpacked first


def check(node: str) -> dict[str, Any]:
    """Say what keeps a machine from joining, as the bootstrap machine sees it over SSH.

    :return: ``problems``, ``warnings``, ``facts``.
    """
    node = str(node)
    try:
        machines = _machines()
        first = next((one["name"] for one in machines if "bootstrap" in one["roles"]), "")
        if not first:
            raise CommandExecutionError("No Node has the role bootstrap")
        found = __utils__["metalk8s_minions.value"](first, "metalk8s_enrolment.check", node)
    except CommandExecutionError as error:
        return {"problems": [str(error)], "warnings": [], "facts": {}}
    return {name: found.get(name, kind()) for name, kind in _CHECKED.items()}


_CHECKED = {"problems": list, "warnings": list, "facts": dict}


def plan(node: str, action: str = "deploy") -> dict[str, Any]:
    """Say what would be done, and do nothing.

    :param action: ``deploy``, ``remove`` or ``remove_dead``.
    :return: ``problems`` and ``warnings`` (sentences), ``steps`` (``id``, ``title``, ``done``).
    """
    try:
        return _shown(_plan(str(node), action, _journal()[1]))
    except CommandExecutionError as error:
        return _shown({"problems": [str(error)]})


def begin(node: str, action: str, caller: str = "") -> dict[str, Any]:
    """Begin a run, or go on with the one that did not end.

    :param caller: a name that only one process has at a time; what began under it is over.
    :return: as for ``plan``. With problems, nothing has begun.
    """
    node = str(node)
    try:
        __utils__["metalk8s_turn.take"](_api(), node, action, str(caller))
    except CommandExecutionError as error:
        return _shown({"problems": [str(error)]})
    try:
        found: dict[str, Any] = _change_journal(lambda runs: _begun(runs, node, action))
    except CommandExecutionError as error:
        found = {"problems": [str(error)]}
    if found["problems"]:
        __utils__["metalk8s_turn.release"](_api(), node)
    return _shown(found)


def step(node: str, id: str) -> dict[str, Any]:  # noqa: A002 - the name is the contract's
    """Do one step of the run that has begun.

    :return: ``changed`` and ``comment``; or ``failed``, a sentence.
    """
    try:
        key, run, wanted = _wanted(str(node), str(id))
        if wanted["done"]:
            return {"changed": 0, "comment": "It was done before"}
        started = time.monotonic()
        with __utils__["metalk8s_turn.held"](_api(), run["node"], run["action"], wanted["title"]):
            result = _tried(run, wanted)
            seconds = round(time.monotonic() - started, 1)
            noted = {"at": _stamp(), "seconds": seconds, **result}
            _change_journal(lambda runs: _note(runs, key, wanted["id"], noted))
    except CommandExecutionError as error:
        return {"failed": str(error)}
    return result


def end(node: str) -> dict[str, Any]:
    """Let others begin; what is left of the run is for another time.

    :return: ``left``: how many steps, ``comment``.
    """
    node = str(node)
    try:
        left = _left(_journal()[1], node)
        if not __utils__["metalk8s_turn.release"](_api(), node):
            return {"left": left, "comment": f"A step for {node} still goes on"}
    except CommandExecutionError as error:
        return {"left": -1, "comment": str(error)}
    return {"left": left, "comment": f"{left} steps are left" if left else "All is done"}


def serve() -> dict[str, Any]:
    """Answer the functions above until there are no more questions: one program for a whole run.

    A line of standard input is a question: a list of the function and its arguments, in JSON. Lines
    of standard output that begin with ``metalk8s_deploy:`` are answers, two for each question: the
    function, which was heard; and what it returned, or a sentence when it failed.
    """
    for line in sys.stdin:
        name, *words = json.loads(line)
        _answer(name)
        try:
            said = _ASKED[name](*words)
        except Exception as error:  # who asks is told, and may ask for something else
            said = f"{type(error).__name__}: {error}"
        _answer(said)
    return {}


def _answer(said: Any) -> None:
    sys.stdout.write(f"metalk8s_deploy: {json.dumps(said)}\n")
    sys.stdout.flush()


_ASKED: dict[str, Callable[..., dict[str, Any]]] = {
    "check": check, "plan": plan, "begin": begin, "step": step, "end": end
}  # fmt: skip


def run(node: str, action: str = "deploy") -> dict[str, Any]:
    """Do all of it.

    :return: ``steps``: how many, ``changed``: of how many something changed.
    :raises CommandExecutionError: with what is in the way, or what failed.
    """
    begun = begin(node, action)
    if begun["problems"]:
        raise CommandExecutionError(". ".join(begun["problems"]))
    changed = 0
    try:
        for one in begun["steps"]:
            result = step(node, one["id"])
            if "failed" in result:
                raise CommandExecutionError(f"{one['title']}: {result['failed']}")
            changed += bool(result["changed"])
    finally:
        end(node)
    return {"steps": len(begun["steps"]), "changed": changed}


# -- what is, and what the plan is -----------------------------------------------------------------
def _machines() -> list[dict[str, Any]]:
    nodes = _api()("list_objects", "v1", "Node")
    return [__utils__["metalk8s_nodes.described"](node) for node in nodes]


def _members(machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask a machine that has a member for all of them; the bootstrap machine first."""
    asked = [one for one in machines if STORING & set(one["roles"]) and one["is_ready"]]
    problems = []
    for one in sorted(asked, key=lambda one: ("bootstrap" not in one["roles"], one["name"])):
        try:
            found = __utils__["metalk8s_minions.value"](one["name"], "metalk8s_etcd.status")
        except CommandExecutionError as error:
            problems.append(str(error))
            continue
        return [
            {
                "name": _owner(member, machines),
                "is_healthy": member["healthy"],
                "is_learner": member["learner"],
            }
            for member in found
        ]
    reasons = "; ".join(problems) or "no machine that has one is ready"
    raise CommandExecutionError(f"etcd's members are not known: {reasons}")


def _owner(member: dict[str, Any], machines: list[dict[str, Any]]) -> str:
    """Name the machine of a member; before it has started, only its address is known."""
    if member["name"]:
        return str(member["name"])
    for machine in machines:
        for peer in member.get("peers", []):
            if machine["address"] and f"//{machine['address']}:" in peer:
                return str(machine["name"])
    return str(member["id"])


def _plan(node: str, action: str, runs: dict[str, Any]) -> dict[str, Any]:
    machines = _machines()
    cluster = {
        "machines": [{k: v for k, v in one.items() if k != "address"} for one in machines],
        "members": _members(machines),
        "unfinished": __utils__["metalk8s_journal.unfinished"](runs),
    }
    past = __utils__["metalk8s_journal.past"](runs, node, _stamp())
    found: dict[str, Any] = __utils__["metalk8s_plan.planned"](cluster, action, node, past)
    known = next((one for one in cluster["machines"] if one["name"] == node), None)
    versions = [one["version"] for one in machines if "bootstrap" in one["roles"]]
    unknown = {"name": node, "roles": ["etcd"], "version": ""}  # known to etcd only
    machine = known or (past or {}).get("machine") or unknown
    return {**found, "machine": machine, "saltenv": f"metalk8s-{next(iter(versions), '')}"}


def _shown(found: dict[str, Any]) -> dict[str, Any]:
    steps = [
        {name: one[name] for name in ("id", "title", "done")} for one in found.get("steps", [])
    ]
    return {"problems": found["problems"], "warnings": found.get("warnings", []), "steps": steps}


# -- what is done --------------------------------------------------------------------------------
def _tried(run: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    try:
        return _done(run, wanted)
    except CommandExecutionError as error:
        is_last_word = wanted["id"] == "absent"
        return {"failed": f"{error}{GONE if is_last_word else ''}"}


def _done(run: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Do one step.

    :raises CommandExecutionError: it cannot be done.
    """
    machine, function = wanted["machine"], wanted["function"]
    if function == "state.apply":
        applied: dict[str, Any] = __utils__["metalk8s_minions.apply"](
            machine, run["saltenv"], *wanted["arguments"]
        )
        return applied
    if function == "test.ping":
        __utils__["metalk8s_minions.await_answer"](machine)
        return {"changed": 0, "comment": f"The minion of {machine} answers"}
    if function == "metalk8s_kubernetes.why_not_ready":
        return _ready(*wanted["arguments"])
    options = {"saltenv": run["saltenv"]} if function == "saltutil.sync_all" else {}
    arguments = list(wanted["arguments"])
    if function == "metalk8s_etcd.remove_member":
        # A minion's pillar is as old as its last refresh, and may not know the Node yet.
        arguments += [one["address"] for one in _machines() if one["name"] == arguments[0]]
    answer = __utils__["metalk8s_minions.value"](machine, function, *arguments, **options)
    return _result(answer)


def _result(answer: Any) -> dict[str, Any]:
    """Read what a function of a minion returned.

    :raises CommandExecutionError: it says that it failed, or what is in the way.
    """
    if isinstance(answer, dict) and answer.get("failed"):
        raise CommandExecutionError(str(answer["failed"]))
    if isinstance(answer, dict) and answer.get("problems"):
        raise CommandExecutionError(" ".join(answer["problems"]))
    said = answer if isinstance(answer, dict) else {}
    lists = {name: value for name, value in said.items() if value and isinstance(value, list)}
    named = (f"{name}: {', '.join(map(str, value))}" for name, value in lists.items())
    if "changed" in said or "problems" in said:
        comment = said.get("comment") or "; ".join(named)
        return {"changed": int(said.get("changed", 0)), "comment": str(comment)}
    # saltutil.sync_all: kinds of modules, each with those that are new.
    return {"changed": sum(map(len, lists.values())), "comment": "; ".join(named)}


def _ready(node: str) -> dict[str, Any]:
    """Wait for a Node; the API server may be away for moments meanwhile."""
    until = time.monotonic() + READY
    while True:
        try:
            reason = _api()("why_not_ready", node)
        except CommandExecutionError as error:
            reason = str(error)
        if not reason:
            return {"changed": 0, "comment": f"Node {node} is ready"}
        if time.monotonic() > until:
            raise CommandExecutionError(f"Node {node} is not ready after {READY} s: {reason}")
        time.sleep(PAUSE)


# -- the journal ---------------------------------------------------------------------------------
def _journal() -> tuple[dict[str, Any], dict[str, Any]]:
    document = _api()("get", *JOURNAL)
    return document, __utils__["metalk8s_journal.read"](document)


def _change_journal(change: Any) -> Any:
    """Change the runs, on what is there now; return what the change says.

    An API server that is away for a moment is waited for: what was done has to be known.
    """
    until = time.monotonic() + OUTAGE
    while True:
        try:
            document, runs = _journal()
            said = change(runs)
            written = __utils__["metalk8s_journal.written"](document, runs)
            if written == document or _api()("replace", written) is not None:
                return said
        except CommandExecutionError as error:
            if not getattr(error, "is_away", False) or time.monotonic() > until:
                raise
            time.sleep(PAUSE)


def _begun(runs: dict[str, Any], node: str, action: str) -> dict[str, Any]:
    found = _plan(node, action, runs)
    if not found["problems"]:
        about = {name: found[name] for name in ("saltenv", "machine")}
        __utils__["metalk8s_journal.begin"](
            runs, found, {"node": node, "action": action, **about}, _stamp()
        )
    return found


def _note(runs: dict[str, Any], key: str, identity: str, result: dict[str, Any]) -> None:
    if key not in runs:
        raise CommandExecutionError("The run was given up meanwhile: begin it again")
    __utils__["metalk8s_journal.note"](runs, key, identity, result, _stamp())


def _left(runs: dict[str, Any], node: str) -> int:
    key = __utils__["metalk8s_journal.current"](runs, node)
    return sum(
        not __utils__["metalk8s_journal.is_done"](one)
        for one in (runs[key]["steps"] if key else [])
    )


def _wanted(node: str, identity: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the run that has begun, and its step.

    :raises CommandExecutionError: there is none, or it is not the step's turn.
    """
    runs = _journal()[1]
    key = __utils__["metalk8s_journal.current"](runs, node)
    if not key:
        raise CommandExecutionError(f"No run for {node} has begun, or it has ended: begin one")
    run = runs[key]
    before = []
    for one in run["steps"]:
        is_done = __utils__["metalk8s_journal.is_done"](one)
        if one["id"] == identity and before and not is_done:
            raise CommandExecutionError(f"Not yet: {before[0]} comes first")
        if one["id"] == identity:
            return key, run, {**one, "done": is_done}
        before += [] if is_done else [one["title"]]
    raise CommandExecutionError(f"The run for {node} has no step {identity}: begin it again")


def _api() -> Any:
    """Return the function that calls the API server, bound to what Salt gives its module."""
    return __utils__["metalk8s_apiserver.call"]


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _stamp() -> str:
    return _now().strftime("%Y-%m-%dT%H:%M:%SZ")
