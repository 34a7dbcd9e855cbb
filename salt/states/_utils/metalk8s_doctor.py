"""What is wrong with a cluster, by what is known of it: findings, the worst first.

Pure. A finding is ``severity`` (``error``: something does not work, or will not for long;
``warning``: something is missing that is wanted), ``subject`` (a machine, or ``etcd``),
``finding`` and ``remedy``, sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

ERROR, WARNING = "error", "warning"
LITTLE_TIME, NO_TIME = 15, 3  # days that a certificate has left; renewal begins at 45
LITTLE_SPACE, NO_SPACE = 15, 5  # percent of a disk
SMALL_OFFSET, GREAT_OFFSET = 2, 30  # seconds, beyond what the way may have taken
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def findings(facts: dict[str, Any]) -> list[dict[str, str]]:
    """Examine a cluster.

    :param facts: ``machines`` (fields of a plan's machine, and ``conditions``: type → status),
        ``minions`` (name → ``metalk8s_health.facts``, with ``offset`` and ``doubt`` in seconds; or
        ``problem``), ``members`` (of ``metalk8s_etcd.status``) or ``members_problem``.
    """
    found = [*_etcd(facts), *_cluster(facts)]
    for machine in facts["machines"]:
        found += _node(machine)
        if machine["is_deployed"]:
            found += _minion(machine["name"], facts["minions"].get(machine["name"], {}))
    order = {ERROR: 0, WARNING: 1}
    return sorted(found, key=lambda one: (order[one["severity"]], one["subject"], one["finding"]))


def verdict(found: list[dict[str, str]]) -> str:
    """Say the worst in one word: ``fine``, ``warning`` or ``error``."""
    return found[0]["severity"] if found else "fine"


def page(facts: dict[str, Any], found: list[dict[str, str]]) -> str:
    """Write it for people: one page, the verdict as its last line."""
    members = facts.get("members") or []
    leader = next((member["name"] for member in members if member["leader"]), "none")
    ready = sum(machine["is_ready"] for machine in facts["machines"])
    voters = sum(not member["learner"] for member in members)
    lines = [
        f"Machines: {len(facts['machines'])}, {ready} ready",
        f"etcd: {len(members)} members, {voters} vote, leader {leader}",
    ]
    known = [minion["clock"] for minion in facts["minions"].values() if minion.get("clock")]
    clocks = Counter(
        (clock["keeper"] or "nobody") if clock["is_free"] else "the host" for clock in known
    )
    if clocks:
        kept = ", ".join(f"{keeper} on {number}" for keeper, number in sorted(clocks.items()))
        lines.append(f"Clocks: kept by {kept}")
    for one in found:
        lines += ["", f"{one['severity'].upper()} {one['subject']}: {one['finding']}"]
        lines.append(f"    {one['remedy']}")
    return "\n".join([*lines, "", f"Verdict: {verdict(found)}"])


def _finding(severity: str, subject: str, finding: str, remedy: str) -> dict[str, str]:
    return {"severity": severity, "subject": subject, "finding": finding, "remedy": remedy}


def _etcd(facts: dict[str, Any]) -> Iterator[dict[str, str]]:
    if facts.get("members_problem"):
        yield _finding(ERROR, "etcd", facts["members_problem"], "See to the machines that have it.")
        return
    members = facts["members"]
    voters = [member for member in members if not member["learner"]]
    healthy = [member for member in voters if member["healthy"]]
    if not any(member["leader"] for member in members):
        yield _finding(ERROR, "etcd", "It has no leader.", "Start the machines of its members.")
    if len(healthy) == len(voters) // 2 + 1 < len(voters):
        yield _finding(
            ERROR,
            "etcd",
            f"{len(healthy)} of {len(voters)} members are healthy: the next loss stops it.",
            "Mend or remove the others at once.",
        )
    for member in members:
        name = member["name"] or member["id"]
        if not member["healthy"]:
            reason = member.get("problem") or "It does not say why."
            remedy = f"Mend {name}, or remove it as a dead machine."
            yield _finding(ERROR, name, f"Its etcd member is not healthy: {reason}", remedy)
        elif member["learner"]:
            remedy = f"Deploy {name} again, or remove it."
            yield _finding(WARNING, name, "Its etcd member only learns.", remedy)
    if voters and len(voters) % 2 == 0:
        text = f"{len(voters)} members vote: with one less it bears as many losses."
        yield _finding(WARNING, "etcd", text, "Add or remove a machine with the role etcd.")


def _cluster(facts: dict[str, Any]) -> Iterator[dict[str, str]]:
    versions = {one["version"] for one in facts["machines"] if "bootstrap" in one["roles"]}
    for machine in facts["machines"]:
        if versions and machine["version"] not in versions:
            text = (
                f"It is of version {machine['version'] or 'none'}, "
                f"the cluster of {', '.join(sorted(versions))}."
            )
            yield _finding(WARNING, machine["name"], text, "Correct its label, and deploy it.")
    packages: dict[str, dict[str, list[str]]] = {}
    for name, minion in sorted(facts["minions"].items()):
        for package, version in minion.get("versions", {}).items():
            if version:
                packages.setdefault(package, {}).setdefault(version, []).append(name)
    for package, there in sorted(packages.items()):
        common = max(there.values(), key=len)
        for version, names in sorted(there.items()):
            for name in [] if names is common else names:
                text = f"Its {package} is {version}, that of most machines is another."
                yield _finding(WARNING, name, text, f"Deploy {name} again.")


def _node(machine: dict[str, Any]) -> Iterator[dict[str, str]]:
    name = machine["name"]
    if not machine["is_deployed"]:
        yield _finding(
            WARNING, name, "It was never deployed.", f"Deploy {name}, or delete its Node."
        )
    elif not machine["is_ready"]:
        remedy = f"See to it; the kubelet says why: kubectl describe node {name}."
        yield _finding(ERROR, name, "Its Node is not ready.", remedy)
    for kind in PRESSURES:
        if machine["conditions"].get(kind) == "True":
            remedy = f"kubectl describe node {name}"
            yield _finding(ERROR, name, f"It has the condition {kind}.", remedy)
    if not machine["is_schedulable"]:
        text = "It is cordoned: no pods come to it."
        yield _finding(WARNING, name, text, f"kubectl uncordon {name}")


def _minion(name: str, known: dict[str, Any]) -> Iterator[dict[str, str]]:
    if known.get("problem") or not known:
        text = f"Its Salt minion does not answer: {known.get('problem', 'it was not asked')}."
        yield _finding(ERROR, name, text, "Start the machine, and salt-minion on it.")
        return
    for one in known["certificates"]:
        yield from _certificate(name, one)
    for disk in known["disks"]:
        percent = 100 * disk["free"] / disk["size"] if disk["size"] else 0.0
        if percent < LITTLE_SPACE:
            text = f"{disk['path']} has {percent:.0f} % free, {disk['free'] >> 20} MiB."
            severity = ERROR if percent < NO_SPACE else WARNING
            yield _finding(severity, name, text, "Make room, or make the disk bigger.")
    for service, runs in sorted(known["services"].items()):
        if not runs:
            remedy = f"systemctl status {service}; systemctl start {service}"
            yield _finding(ERROR, name, f"{service} does not run.", remedy)
    if known["api_server"] is False:
        remedy = "What it says is in /var/log/pods; it needs etcd."
        yield _finding(ERROR, name, "Its API server is not ready.", remedy)
    offset = abs(known["offset"]) - known["doubt"]
    if offset > SMALL_OFFSET:
        text = f"Its clock is off by {known['offset']:+.0f} s."
        remedy = "Set it, and let a time service keep it so."
        yield _finding(ERROR if offset > GREAT_OFFSET else WARNING, name, text, remedy)
    yield from _clock(name, known.get("clock") or {})


def _clock(name: str, clock: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Examine who keeps a clock; nothing is known of a machine of a version that did not ask."""
    keeper, sources = clock.get("keeper", ""), clock.get("sources", {})
    silent = [source for source, answers in sorted(sources.items()) if not answers]
    remedy = f"On {name}: chronyc sources. They are reached at UDP port 123."
    if not keeper:
        if clock.get("is_ours"):
            what = "chrony, which is to keep its clock, does not run."
            yield _finding(ERROR, name, what, "Apply metalk8s.clock; systemctl status chrony.")
    elif clock["synchronised"] is None:
        what = f"{keeper}, which keeps its clock, does not say how that goes."
        yield _finding(WARNING, name, what, f"systemctl restart {keeper}")
    elif sources and len(silent) == len(sources) and not clock["synchronised"]:
        what = f"None of those whom its clock follows answers: {', '.join(silent)}."
        yield _finding(WARNING, name, what, remedy)
    elif not clock["synchronised"]:
        what = f"{keeper}, which keeps its clock, is not synchronised."
        yield _finding(WARNING, name, what, f"See whom it asks: systemctl status {keeper}.")
    preferred = clock.get("preferred", [])
    if preferred and set(preferred) <= set(silent) and clock["synchronised"]:
        what = (
            f"None of the site's time servers answers ({', '.join(preferred)}): the cluster keeps "
            f"a time of its own (stratum {clock['stratum']})."
        )
        yield _finding(WARNING, name, what, remedy)


def _certificate(name: str, one: dict[str, Any]) -> Iterator[dict[str, str]]:
    remedy = f"Deploy {name} again; authorities are not renewed by that."
    if "problem" in one:
        yield _finding(WARNING, name, f"{one['path']} cannot be read: {one['problem']}", remedy)
    elif one["days"] < 0:
        yield _finding(ERROR, name, f"{one['path']} ended {-one['days']:.0f} days ago.", remedy)
    elif one["days"] < LITTLE_TIME:
        text = f"{one['path']} ends in {one['days']:.0f} days."
        yield _finding(ERROR if one["days"] < NO_TIME else WARNING, name, text, remedy)
