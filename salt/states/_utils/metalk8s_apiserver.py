"""The API server, as the Salt master sees it: by a kubeconfig of its own that may do little."""

from __future__ import annotations

from typing import Any

import salt.loader
from salt.exceptions import CommandExecutionError

KUBECONFIG = "/etc/metalk8s/kubeconfig"
# The module that speaks with it, and what that asks.
MODULES = ("metalk8s_kubernetes", "metalk8s_marks")
BROKEN = 500  # status: it is there, and cannot


def call(function: str, *arguments: Any) -> Any:
    """Call a function of the module that speaks with the API server.

    :param function: ``get`` of what states have made, ``replace``, ``list_objects``, …
    :raises CommandExecutionError: it does not answer (then ``is_away``), refuses, or does not have
        what states have made.
    """
    if "metalk8s_modules" not in __context__:
        found = salt.loader.minion_mods(__opts__, whitelist=list(MODULES))
        __context__["metalk8s_modules"] = found
    try:
        answer = __context__["metalk8s_modules"][f"metalk8s_kubernetes.{function}"](
            *arguments, kubeconfig=KUBECONFIG
        )
    except Exception as error:  # its own class is not to be had here
        status = getattr(error, "status", None)
        failure = CommandExecutionError(f"The API server: {error}")
        failure.is_away = status is not None and (not status or status >= BROKEN)
        raise failure from error
    if answer is None and function == "get":
        _, kind, name, namespace = arguments
        raise CommandExecutionError(
            f"The cluster has no {kind} {namespace}/{name}, which states make on the bootstrap "
            "machine: apply its highstate"
        )
    return answer
