"""What the roles of a machine need, as their own state files include it.

A role needs each component that ``metalk8s/roles/<role>/init.sls`` includes, and what the roles
need that it includes. So a role that leaves a machine takes what no other role of it needs, and
there is no second list to keep.
"""

from __future__ import annotations

import urllib.parse
from typing import Any

ROLES = ("node", "infra", "etcd", "master", "bootstrap")
START = "metalk8s.roles."
LABEL = "node-role.kubernetes.io/"
APPLIED = "metalk8s.scality.com/applied-roles"


def components(role: str, saltenv: str) -> list[str]:
    """List what a role needs, in its order, each once.

    :return: as in ``metalk8s.kubelet``.
    """
    path = f"salt://metalk8s/roles/{role}/init.sls"
    known: dict[str, Any] = __salt__["slsutil.renderer"](
        path=path, default_renderer="jinja|yaml", saltenv=saltenv
    )
    found: list[str] = []
    for name in known["include"]:
        is_role = name.startswith(START)
        found += components(name.removeprefix(START), saltenv) if is_role else [name]
    return list(dict.fromkeys(found))


def leaving(role: str, roles: list[str], saltenv: str) -> list[str]:
    """Name the state files that take a role from a machine, in the reverse order of the role's.

    :param roles: of the machine; whether the one that leaves is still among them does not matter.
    :return: as in ``metalk8s.kubelet.absent``; nothing where other roles need all of it.
    """
    needed = {name for other in roles if other != role for name in components(other, saltenv)}
    gone = [name for name in components(role, saltenv) if name not in needed]
    return [f"{name}.absent" for name in reversed(gone)]


def superfluous(roles: list[str], saltenv: str) -> list[str]:
    """Name the state files that take from a machine what none of its roles needs.

    :return: as for ``everything``, in its order.
    """
    needed = {f"{name}.absent" for role in roles for name in components(role, saltenv)}
    return [name for name in everything(saltenv) if name not in needed]


def record(name: str, roles: str, kubeconfig: str = "") -> dict[str, Any]:
    """Write down, at its Node, the roles that a machine may have something of.

    Those of its labels now are among them: one that came in the middle of a deployment may have
    been heeded by it, and may be gone before the next.

    :param roles: with commas between them.
    """
    path = f"/api/v1/nodes/{urllib.parse.quote(name, safe='')}"
    call = __salt__["metalk8s_kubernetes.call"]
    node = call("GET", path, None, kubeconfig)
    labels = node["metadata"].get("labels") or {}
    roles = ",".join(sorted({*roles.split(","), *(x for x in ROLES if f"{LABEL}{x}" in labels)}))
    if (node["metadata"].get("annotations") or {}).get(APPLIED) == roles:
        return {"changed": False}
    call("PATCH", path, {"metadata": {"annotations": {APPLIED: roles}}}, kubeconfig)
    return {"changed": True}


def everything(saltenv: str) -> list[str]:
    """Name the state files that take from a machine what any role may ever have put on it.

    Not those of the bootstrap machine, which has what is the whole cluster's.
    """
    base = components("node", saltenv)
    asked = [role for role in reversed(ROLES) if role != "bootstrap"]
    order = [name for role in asked for name in reversed(components(role, saltenv))]
    order = [name for name in order if name not in base] + base[::-1]
    return [f"{name}.absent" for name in dict.fromkeys(order)]
