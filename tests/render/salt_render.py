"""Render a Salt tree with Salt itself, for machines that are only described by their grains.

Run by the Python that has Salt: one request (JSON) on standard input, one answer (JSON) on standard
output.

Request: ``states`` and ``pillar`` (folders), ``saltenv``, ``scratch`` (folder for Salt's caches),
``machines``: name → ``{"grains": {…}, "pillar": {…} or the path of a YAML file, "sls": [names]}``.

Answer: name → ``{"map": the value of map.jinja, "errors": why there is none, "top": names of the
states of a highstate, "sls": name → rendered}``, where rendered is ``{"errors": [messages],
"states": [one a state, in the order Salt runs them]}``.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import pathlib
import shutil
import sys
from collections.abc import Callable
from typing import Any

import salt.config
import salt.state
import salt.utils.args
import yaml

# Arguments that a state function takes through **kwargs, so that its signature doesn't show them.
BEHIND_KWARGS = {
    "file.directory": {"mode"},
    "pkg.installed": {"hold", "install_recommends", "setopt"},
    "service.dead": {"no_block"},
    "service.running": {"reload"},
}
# States of ours that render a template, as file.managed does.
RENDERING = {
    "metalk8s_static_pod.managed",
    "metalk8s_kubernetes.applied",
    "metalk8s_kubernetes.deleted",
}

# A state that only carries the map out of Salt.
MAP_PROBE = """
{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
The merged map:
  test.configurable_test_state:
    - comment: {{ metalk8s | json | json }}
"""


def minion_options(
    request: dict[str, Any], machine: dict[str, Any], states: pathlib.Path
) -> dict[str, Any]:
    """Say what a masterless minion of that machine is configured with."""
    scratch = pathlib.Path(request["scratch"])
    options: dict[str, Any] = salt.config.minion_config(None, minion_id="node")
    options.update(
        file_client="local",
        file_roots={request["saltenv"]: [str(states), str(scratch / "probe")]},
        pillar_roots={request["saltenv"]: [request["pillar"]]},
        saltenv=request["saltenv"],
        pillarenv_from_saltenv=True,
        cachedir=str(scratch / "cache"),
        root_dir=str(scratch),
        grains={"id": "node", "path": "/usr/bin", **machine["grains"]},
        test=True,
        extension_modules=str(scratch / "extmods"),
    )
    return options


def signature_of(function: str, states: pathlib.Path) -> set[str]:
    """Name the arguments of a state function, of the tree's own ``_states`` or of Salt."""
    module_name, name = function.split(".")
    own = states / "_states" / f"{module_name}.py"
    if own.exists():
        spec = importlib.util.spec_from_file_location(module_name, own)
        if spec is None or spec.loader is None:
            raise ImportError(f"{own} can't be loaded")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(f"salt.states.{module_name}")
    return set(salt.utils.args.get_function_argspec(getattr(module, name)).args)


def managed_file(
    caller: salt.state.State, arguments: dict[str, Any], saltenv: str
) -> dict[str, Any]:
    """Render the template of a ``file.managed`` as the state would."""
    fields = dict.fromkeys(
        ("source_hash", "source_hash_name", "user", "group", "mode", "attrs", "defaults")
    )
    path, _, error = caller.functions["file.get_managed"](
        name=arguments["name"],
        template=arguments.get("template", "jinja"),
        source=arguments["source"],
        saltenv=saltenv,
        context={
            "config_digest": "0" * 64,
            "config_files": arguments.get("config_files", []),
            **arguments.get("context", {}),
        },
        **fields,
    )
    text = pathlib.Path(path).read_text(encoding="utf-8") if path and not error else ""
    target = arguments["name"]
    if not target.startswith("/"):  # objects of the cluster have no path on a machine
        target = "/" + arguments["source"].removeprefix("salt://").removesuffix(".j2")
    return {"path": target, "source": arguments["source"], "text": text, "error": error}


def describe(
    chunk: dict[str, Any],
    caller: salt.state.State,
    saltenv: str,
    states: pathlib.Path,
    described_files: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Say what one state is: identity, arguments, unknown ones, the file that it writes."""
    function = f"{chunk['state']}.{chunk['fun']}"
    arguments = {
        name: value
        for name, value in chunk.items()
        if name not in salt.state.STATE_INTERNAL_KEYWORDS
        or name in {"check_cmd", "creates", "onlyif", "unless"}
    }
    known = (
        signature_of(function, states)
        | BEHIND_KWARGS.get(function, set())
        | salt.state.STATE_INTERNAL_KEYWORDS
    )
    described = {
        "id": chunk["__id__"],
        "sls": chunk["__sls__"],
        "function": function,
        "arguments": arguments,
        "unknown": sorted(set(arguments) - known),
    }
    # A source without salt:// is a file of the machine, which is copied as it is.
    if function in RENDERING or arguments.get("source", "").startswith("salt://"):
        key = f"{chunk['__sls__']} {chunk['__id__']} {arguments['name']}"
        if key not in described_files:
            described_files[key] = managed_file(caller, arguments, saltenv)
        described["file"] = described_files[key]
    return described


def render_sls(
    name: str,
    high_state: salt.state.HighState,
    states: pathlib.Path,
    described_files: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Compile one SLS, with what it includes, down to the states that Salt would run.

    :param described_files: those of the same machine so far; a state is in many an SLS.
    """
    saltenv = high_state.opts["saltenv"]
    caller = high_state.state
    high_state.building_highstate = {}  # Salt itself would merge with the SLS before
    high, errors = high_state.render_highstate({saltenv: [name]})
    high, extend_errors = caller.reconcile_extend(high)
    errors += extend_errors + caller.verify_high(high)
    chunks: list[dict[str, Any]] = []
    if not errors:
        high, errors = caller.requisite_in(high)
    if not errors:
        chunks, errors = caller.compile_high_data(high)
    return {
        "errors": errors,
        "states": [describe(chunk, caller, saltenv, states, described_files) for chunk in chunks],
    }


def render_top(high_state: salt.state.HighState) -> list[str]:
    """Name the states that a highstate of the machine applies."""
    top = high_state.get_top()
    errors = high_state.verify_tops(top)
    if errors:
        raise ValueError(errors)
    matches: list[str] = high_state.top_matches(top).get(high_state.opts["saltenv"], [])
    return matches


def runner_of(states: pathlib.Path) -> Callable[..., Any]:
    """Answer as the Salt master's runner would: with a plan for one of three machines."""
    file = states / "_utils/metalk8s_plan.py"
    spec = importlib.util.spec_from_file_location("metalk8s_plan", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    roles = {"first": ["bootstrap"], "second": ["etcd", "master"], "joining": ["node"]}
    machines = [{"name": name, "roles": has, "version": "1"} for name, has in roles.items()]
    members = [{"name": name} for name in ("first", "second")]

    def run(name: str, kwarg: dict[str, str]) -> Any:
        assert name == "metalk8s_deploy.plan"
        cluster = {"machines": machines, "members": members}
        return module.planned(cluster, kwarg["action"], kwarg["node"])

    return run


def render_machine(request: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """Render everything that is asked of one machine."""
    states = pathlib.Path(request["states"])
    options = minion_options(request, machine, states)
    pillar = machine["pillar"]
    if isinstance(pillar, str):
        pillar = yaml.safe_load(pathlib.Path(pillar).read_text(encoding="utf-8"))
    with salt.state.HighState(options, pillar_override=pillar) as high_state:
        high_state.push_active()
        # The only file of the machine that is read for a value: of ours, not of whose test this is.
        resolver = machine.get("resolver", "/etc/resolv.conf")
        high_state.state.functions["metalk8s_network.resolver"] = lambda: resolver
        # Nor is the clock, or who keeps it.
        clock = {"other": "", "is_free": True, **machine.get("clock", {})}
        others = [clock["other"]] if clock["other"] else []
        high_state.state.functions["metalk8s_clock.others"] = lambda *_asked: others
        high_state.state.functions["metalk8s_clock.is_free"] = lambda: clock["is_free"]
        # Nor are files that are there by now, and machines that joined.
        there, pins = machine.get("files", []), machine.get("pins", {})
        high_state.state.functions["file.file_exists"] = lambda path: path in there
        high_state.state.functions["metalk8s_machines.pinned"] = lambda: pins
        high_state.state.functions["saltutil.runner"] = runner_of(states)
        files: dict[str, dict[str, Any]] = {}
        probe = render_sls("map_probe", high_state, states, files)
        found = probe["states"]
        rendered = {
            "map": json.loads(found[0]["arguments"]["comment"]) if found else None,
            "errors": probe["errors"] + high_state.opts["pillar"].get("_errors", []),
            "top": render_top(high_state) if found else [],
            "sls": {name: render_sls(name, high_state, states, files) for name in machine["sls"]},
        }
        high_state.pop_active()
    return rendered


def main() -> None:
    """Answer the request."""
    logging.disable(logging.CRITICAL)  # Salt logs each error that it also returns
    request = json.load(sys.stdin)
    for kind in ("modules", "states"):
        own = pathlib.Path(request["states"]) / f"_{kind}"
        shutil.copytree(own, pathlib.Path(request["scratch"]) / "extmods" / kind)
    probe = pathlib.Path(request["scratch"]) / "probe"
    probe.mkdir()
    (probe / "map_probe.sls").write_text(MAP_PROBE, encoding="utf-8")
    answer = {
        name: render_machine(request, machine) for name, machine in request["machines"].items()
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
