"""What the Salt tree of a medium refers to: every state, rendered for every kind of machine.

It begins where Salt does (``top.sls``) and where people do (the names that scripts call), and goes
through includes, imports, templates, own modules and functions. Each thing is kept with who wants
it. What is beside an ``init.sls`` nobody has to name: ``absent.sls`` takes the state back, and a
role's ``certified.sls`` renews its certificates.
"""

from __future__ import annotations

import ast
import copy
import functools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from buildchain.core.errors import ContentError

if TYPE_CHECKING:
    from buildchain.proof.salt_jinja import SaltEnvironment

STATES, PILLAR = "salt/", "pillar/"
VERSIONS = "salt/metalk8s/versions.json"
OURS = "metalk8s_"  # what Salt's own modules are never called
SLS = re.compile(r"metalk8s(?:\.[a-z0-9-]+)+")
ROLES = "metalk8s.roles."
APPLIED = re.compile(r"\bstate\.apply\s+(metalk8s(?:\.[a-z0-9-]+)+)")
CALL = re.compile(r"""\b(salt|__salt__|__states__|__utils__)\[["'](\w+)\.(\w+)["']\]""")
KINDS = {"__states__": "_states", "__utils__": "_utils"}  # and else `_modules`
# Who calls modules by their names, as text: scripts, and through the master what runs on it.
CALLER = re.compile(rf"[\w-]+\.sh$|{OURS}\w+/.*\.py$|{STATES}(_runners|_utils|_states)/.*\.py$")
QUOTED = re.compile(rf"""(?<!\[)["']({OURS}\w+)(?:\.(\w+))?["']""")
WORD = re.compile(rf"\b({OURS}\w+)(?:\.(\w+))?")
# A runner is named in one place of a script: in the shell's call, or as a constant.
RUNNER = re.compile(rf"""(?:salt-run .*|(?m:^)RUNNER = ["'])({OURS}\w+)""")
# What an operator applies by its name, on the master.
ORCHESTRATIONS = ("metalk8s.orchestrate.deploy_node", "metalk8s.orchestrate.remove_node")
EXT_PILLAR = re.compile(rf"(?m)^ext_pillar:\n\s+- ({OURS}\w+):")
NAMED = re.compile(rf'["\']({SLS.pattern})["\']')
# The first machine, and one that has joined: with every role that one can have.
ROLE_SETS = (("bootstrap",), ("etcd", "master"))
FILE = re.compile(r"""["']salt://([\w./-]+)["']""")
GIVEN = re.compile(r"(?m)^( +metalk8s: )(\{.*\})$")
IMAGE = re.compile(r"""(?m)^[\s-]*["']?image["']?\s*:\s*["']?([^\s"',{}]+)""")


@dataclass(frozen=True)
class Machine:
    """A kind of machine that packages are there for.

    :param roles: in a cluster; states of the first machine are others than those of the rest.
    """

    family: str
    release: str
    roles: tuple[str, ...] = ()

    @property
    def grains(self) -> dict[str, object]:
        return {
            "id": "node",
            "os": self.family,
            "os_family": self.family.capitalize().replace("hat", "Hat"),
            "osmajorrelease": int(self.release) if self.release.isdigit() else self.release,
        }


@dataclass
class Wanted:
    """What is referred to, each by who does.

    :param files: paths on the medium.
    :param images: references as they stand.
    :param packages: by family and release: names, with a version or an empty string.
    :param functions: ``<kind>/<module>`` and the function.
    :param problems: what could not be followed.
    """

    files: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    images: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    packages: dict[tuple[Machine, str, str], set[str]] = field(
        default_factory=lambda: defaultdict(set)
    )
    functions: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    problems: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class Files:
    """The medium, as its states see it.

    :param text: reads a file, ``None`` when there is none.
    """

    text: Callable[[str], str | None]
    is_folder: Callable[[str], bool]


class Reader:
    """Follows one kind of machine through the tree."""

    def __init__(
        self,
        files: Files,
        machine: Machine,
        version: str,
        mount: str,
        wanted: Wanted,
    ) -> None:
        self._files = files
        self._machine = machine
        self._mount = mount
        self._wanted = wanted
        self._seen: set[str] = set()
        self._saltenv = f"metalk8s-{version}"
        known = {
            "grains": machine.grains,
            "opts": {"id": machine.grains["id"]},
            "saltenv": self._saltenv,
        }
        self._environments = {
            folder: self._environment(folder, known) for folder in (STATES, PILLAR)
        }

    def _environment(self, folder: str, machine: Mapping[str, object]) -> SaltEnvironment:
        # Late: it stands on a library that only a check needs.
        from buildchain.proof import salt_jinja

        def read(path: str, parent: str) -> str | None:
            self._want(f"{folder}{path}", f"{folder}{parent}")
            return self._files.text(f"{folder}{path}")

        known = salt_jinja.Value("_modules/metalk8s_map.py", "metalk8s/map.jinja", "metalk8s")
        roles = {"metalk8s:node:roles": list(self._machine.roles)}
        return salt_jinja.SaltEnvironment(read, machine, {"metalk8s_map.known": known}, roles)

    def _want(self, path: str, who: str) -> None:
        self._wanted.files[path].add(who)

    def follow(self, called: Mapping[str, Iterable[str]]) -> None:
        """Follow the two ``top.sls``, and states that are called by name.

        :param called: names of states, with who calls them.
        """
        for folder in (STATES, PILLAR):
            for names in self._parsed(folder, "top.sls").get(self._saltenv, {}).values():
                for name in (name for name in names if isinstance(name, str)):
                    self._follow_sls(folder, name, f"{folder}top.sls")
        for name, callers in called.items():
            for who in callers:
                self._follow_sls(STATES, name, who)

    def _follow_sls(self, folder: str, name: str, who: str) -> None:
        path = name.replace(".", "/")
        is_folder = self._files.is_folder(f"{folder}{path}")
        file = f"{path}/init.sls" if is_folder else f"{path}.sls"
        self._want(f"{folder}{file}", who)
        if f"{folder}{file}" in self._seen or self._files.text(f"{folder}{file}") is None:
            return
        self._seen.add(f"{folder}{file}")
        document = self._parsed(folder, file)
        if folder == PILLAR:
            return
        if is_folder:
            self._follow_sls(folder, f"{name}.absent", f"{folder}{file}")
            if name.startswith(ROLES):
                self._follow_sls(folder, f"{name}.certified", f"{folder}{file}")
        included_names = document.pop("include", None)
        # What only a machine can tell is no list: each component's `absent` is followed with it.
        for included in included_names if isinstance(included_names, list) else ():
            self._follow_sls(folder, str(included), f"{folder}{file}")
        for function, arguments in _functions(document):
            self._take(function, arguments, f"{folder}{file}")

    def _parsed(self, folder: str, file: str) -> dict[str, Any]:
        """Return a rendered state or pillar, and take note of what it refers to."""
        text = self._rendered(folder, file, {"sls": file.removesuffix(".sls").replace("/", ".")})
        try:
            # Its own: whoever gets it takes things out of it.
            document = copy.copy(_document(text))
        except ContentError as error:
            self._problem(f"{folder}{file}: {error.reason}")
            return {}
        # What a template is given is no reference yet, only what it makes of it.
        for words in _words(document):
            self._read_text(words, f"{folder}{file}")
        return document if isinstance(document, dict) else {}

    def _rendered(self, folder: str, file: str, context: Mapping[str, Any]) -> str:
        from buildchain.proof import salt_jinja

        try:
            return salt_jinja.render(self._environments[folder], file, context)
        except ContentError as error:
            self._problem(f"{folder}{file}: {error.reason}")
            return ""

    def _read_text(self, text: str, who: str) -> None:
        """Take note of files of the medium, by their path once mounted, and of images."""
        for match in re.finditer(rf"{re.escape(self._mount)}/([\w./+~-]*\w)", text):
            self._want(match[1], who)
        served = rf"[\w.-]+(?::\d+)?/{re.escape(self._saltenv)}/[\w./-]+[:@]\w[\w.:-]*"
        for match in re.finditer(rf"(?<![\w./-]){served}", text):
            self._wanted.images[match[0]].add(who)
        for image in IMAGE.findall(text):
            self._wanted.images[image].add(who)
        for module in EXT_PILLAR.findall(text):
            self._want(f"{STATES}_pillar/{module}.py", who)

    def _take(self, function: str, arguments: Mapping[str, Any], who: str) -> None:
        module, _, name = function.partition(".")
        if module.startswith(OURS):
            self._want(f"{STATES}_states/{module}.py", who)
            self._wanted.functions[f"{STATES}_states/{module}.py", name].add(who)
        if function == "salt.runner":
            runner, _, name = str(arguments["name"]).partition(".")
            self._want(f"{STATES}_runners/{runner}.py", who)
            self._wanted.functions[f"{STATES}_runners/{runner}.py", name].add(who)
        source = str(arguments.get("source", ""))
        if source.startswith("salt://"):
            file = source.removeprefix("salt://")
            self._want(f"{STATES}{file}", who)
            if file.endswith(".j2") and self._files.text(f"{STATES}{file}") is not None:
                text = self._rendered(STATES, file, arguments.get("context") or {})
                self._read_text(text, f"{STATES}{file}")
                for name in APPLIED.findall(text):
                    self._follow_sls(STATES, name, f"{STATES}{file}")
        if function == "pkg.installed":
            for package in arguments.get("pkgs") or ():
                pinned = package if isinstance(package, dict) else {package: ""}
                for key, version in pinned.items():
                    self._wanted.packages[self._machine, str(key), str(version)].add(who)

    def _problem(self, text: str) -> None:
        self._wanted.problems[f"{text} ({self._machine.family} {self._machine.release})"] = None


@functools.lru_cache(maxsize=1024)
def _document(text: str) -> Any:
    """Parse a rendered state once, for however many media it is the same."""
    from buildchain.proof import salt_jinja

    # Templates are given the whole map, in JSON: as YAML, that takes twenty times as long to read.
    maps: dict[str, Any] = {}
    short = salt_jinja.read_yaml(GIVEN.sub(lambda found: _put_aside(found, maps), text))
    # What is elsewhere than in a context is something else.
    return short if _put_back(short, maps) == len(maps) else salt_jinja.read_yaml(text)


def _put_aside(found: re.Match[str], maps: dict[str, Any]) -> str:
    name = f"given map {len(maps)}"
    try:
        maps[name] = json.loads(found[2])
    except ValueError:
        return found[0]
    return f"{found[1]}{name}"


def _put_back(document: object, maps: Mapping[str, Any]) -> int:
    """Give contexts their maps again; return how many there were."""
    count = 0
    for _, arguments in _functions(document) if maps and isinstance(document, dict) else ():
        context = arguments.get("context")
        if isinstance(context, dict) and str(context.get("metalk8s")) in maps:
            context["metalk8s"] = maps[context["metalk8s"]]
            count += 1
    return count


def _words(document: object) -> Iterator[str]:
    """Yield every string of a document, except what is only handed to templates."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key != "context":
                yield from (*_words(key), *_words(value))
    elif isinstance(document, list):
        for value in document:
            yield from _words(value)
    elif isinstance(document, str):
        yield document


def _functions(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the functions that states call, with their arguments."""
    for name, body in document.items():
        for function, lines in (body if isinstance(body, dict) else {}).items():
            arguments: dict[str, Any] = {"name": name}
            for line in lines or ():
                arguments |= line if isinstance(line, dict) else {}
            yield str(function), arguments


def machines(files: Callable[[str], str | None]) -> tuple[Machine, ...]:
    """Return the kinds of machines that a medium has packages for."""
    from buildchain.proof import salt_jinja

    families = json.loads(files(VERSIONS) or "{}").get("packages", {})
    found = []
    for family in families:
        text = files(f"{STATES}metalk8s/parameters/os_family/{family}.yaml")
        parameters = salt_jinja.read_yaml(text or "") or {}
        # A family without its parameters is still one: what reads them will say so.
        releases = parameters.get("supported_releases") or ["0"]
        found += [Machine(family, str(one), roles) for one in releases for roles in ROLE_SETS]
    return tuple(found)


def read_modules(paths: Iterable[str], files: Callable[[str], str | None], wanted: Wanted) -> None:
    """Take note of what templates and modules call of our own modules, rendered or not.

    What modules send to machines, and not states, they name whole: ``"salt://…"``.
    """
    for path in paths:
        for file in FILE.findall(files(path) or "") if path.endswith(".py") else ():
            wanted.files[f"{STATES}{file}"].add(path)
        for caller, module, name in CALL.findall(files(path) or ""):
            if module.startswith(OURS):
                file = f"{STATES}{KINDS.get(caller, '_modules')}/{module}.py"
                wanted.files[file].add(path)
                wanted.functions[file, name].add(path)


def named(paths: Iterable[str], files: Callable[[str], str | None]) -> dict[str, set[str]]:
    """Return the states that what runs on the master applies by name, with who does."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        if path.startswith((f"{STATES}_runners/", f"{STATES}_utils/")):
            for match in NAMED.finditer(files(path) or ""):
                found[match[1]].add(path)
    return found


def read_names(paths: Collection[str], files: Callable[[str], str | None], wanted: Wanted) -> None:
    """Take note of the modules that scripts, and what runs on the master, call by their names."""
    for path in paths:
        if not CALLER.match(path):
            continue
        for runner in RUNNER.findall(files(path) or ""):
            wanted.files[f"{STATES}_runners/{runner}.py"].add(path)
        for module, name in (QUOTED if path.endswith(".py") else WORD).findall(files(path) or ""):
            runner, own = (f"{STATES}{kind}/{module}.py" for kind in ("_runners", "_modules"))
            is_function = bool(name) and path.endswith(".py")
            if runner not in paths and own not in paths and not is_function:
                continue
            file = runner if runner in paths else own
            wanted.files[file].add(path)
            if is_function:
                wanted.functions[file, name].add(path)


def defined(module: ast.Module) -> set[str]:
    """Return the names of the functions that a module defines."""
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
