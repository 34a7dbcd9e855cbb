"""Scripts at the root of a medium: which files, modules and states they refer to.

A shell script reaches the medium as ``$root/…`` and starts our Python with ``-m <package>``; that
reaches it as ``<…>.root / "…"``, and calls states by their whole names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from buildchain.proof import states
from buildchain.proof.medium_check import Check

AT_ROOT = re.compile(r"""\$\{?root\}?/([\w.-]+(?:/[\w.-]+)*)""")
AS_MODULE = re.compile(r"""\s-m (metalk8s_\w+)""")
# Ends of names with dots that are files or hosts, not states.
SUFFIXES = ("asc", "conf", "gpg", "io", "json", "list", "log", "repo", "service", "sources", "yaml")


def follow(check: Check, entries: Collection[str]) -> dict[str, set[str]]:
    """Want what scripts refer to; return the states they call, with who does.

    :param entries: what else stands at the root, there or not.
    """
    top = {path.partition("/")[0] for path in (*check.paths, *entries)}
    called: dict[str, set[str]] = {}
    for path in sorted(check.paths):
        text = check.text(path) if path.endswith(".sh") and "/" not in path else None
        for file in AT_ROOT.findall(text or ""):
            if not check.is_folder(file):
                check.want(file, path)
        for package in AS_MODULE.findall(text or ""):
            for name in ("__init__", "__main__"):
                _follow_module(check, f"{package}/{name}.py", path, top, called)
    return called


def _follow_module(
    check: Check, path: str, who: str, top: Collection[str], called: dict[str, set[str]]
) -> None:
    """Want a module, what it reads of the medium, and the modules it imports."""
    is_new = path not in check.wanted.files
    check.want(path, who)
    tree = check.python(path) if is_new else None
    if tree is None:
        return
    for node in ast.walk(tree):
        for module in _imported(node, path.partition("/")[0]):
            _follow_module(check, _file(check, module), path, top, called)
        file = _path(node)
        if file.partition("/")[0] in top and not check.is_folder(file):
            check.want(file, path)
        value = node.value if isinstance(node, ast.Constant) else None
        is_state = isinstance(value, str) and states.SLS.fullmatch(value)
        if is_state and str(value).rpartition(".")[2] not in SUFFIXES:
            called.setdefault(str(value), set()).add(path)


def _file(check: Check, module: str) -> str:
    """Return the file of a module, or of a package of modules."""
    place = module.replace(".", "/")
    return f"{place}/__init__.py" if check.is_folder(place) else f"{place}.py"


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules of a package that a statement imports."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module == package:
        names = [f"{package}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    else:
        return
    yield from (name for name in names if name.startswith(f"{package}."))


def _path(node: ast.AST) -> str:
    """Return ``a/b`` of ``<…>.root / "a" / "b"``, empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        if not isinstance(node.right, ast.Constant) or not isinstance(node.right.value, str):
            return ""
        parts.insert(0, node.right.value)
        node = node.left
    is_root = isinstance(node, ast.Attribute) and node.attr == "root"
    return "/".join(parts) if is_root else ""
