"""Renders the templates of a Salt tree without Salt: enough to know what they refer to.

What only a machine can tell (most of ``salt[…]``, ``pillar`` and ``grains``) has a stand-in that
takes part in everything and ends as the word ``unknown``. Tags and filters of Salt's that the tree
uses are made here; a filter that is not known leaves its value as it is.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import jinja2
import yaml
from jinja2 import nodes
from jinja2.bccache import Bucket
from jinja2.ext import Extension
from jinja2.parser import Parser

from buildchain.core.errors import ContentError

# The same in C is ten times as fast; it is there wherever PyYAML comes as a wheel.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def render(environment: SaltEnvironment, file: str, context: Mapping[str, Any]) -> str:
    """Render a template; one that is not there is empty, for its reader knows.

    :raises ContentError: it cannot be rendered, or refuses.
    """
    try:
        return environment.get_template(file).render(context)
    except jinja2.TemplateNotFound:
        return ""
    except RefusalError as error:
        raise ContentError(str(error)) from error
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ContentError(f"it cannot be rendered: {error}") from error


def read_yaml(text: str) -> Any:
    """Parse YAML without its own types.

    :raises ContentError: it is none.
    """
    try:
        return yaml.load(text, _LOADER)  # noqa: S506  (a safe one, both of them)
    except yaml.YAMLError as error:
        raise ContentError(f"it is no YAML: {error}") from error


LOADERS: Mapping[str, Callable[[str], Any]] = {
    "json": json.loads,
    "text": str,
    "yaml": read_yaml,
}


class Unknown(str):
    """What only a machine can tell: true, empty, callable, with every attribute and item."""

    __slots__ = ()

    def __new__(cls) -> Self:
        return super().__new__(cls, "unknown")

    def __getattr__(self, name: str) -> Unknown:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, _key: Any) -> Unknown:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __call__(self, *_arguments: Any, **_options: Any) -> Unknown:
        return self


class Unset(jinja2.ChainableUndefined):
    """What a template reads though nobody has set it: empty, as deep as it is read."""

    __slots__ = ()

    def __call__(self, *_arguments: Any, **_options: Any) -> Any:
        return self


@dataclass(frozen=True)
class Value:
    """What a template sets, as a module hands it to others.

    :param module: path of the module.
    :param name: what the template calls it.
    """

    module: str
    template: str
    name: str


class RefusalError(Exception):
    """A template called ``raise``."""


class _Forgiving(dict[str, Any]):
    """Filters by name; what Salt or Ansible might add changes nothing."""

    def __missing__(self, name: str) -> Callable[..., Any]:
        return lambda value, *_arguments, **_options: value

    def __contains__(self, _name: object) -> bool:
        return True

    def get(self, name: str, _default: Any = None) -> Any:
        return self[name]


class SaltTags(Extension):
    """``import_yaml``, ``load_yaml`` and their likes."""

    tags = {f"{verb}_{kind}" for verb in ("import", "load") for kind in LOADERS}  # noqa: RUF012

    def __init__(self, environment: jinja2.Environment) -> None:
        super().__init__(environment)
        self._values: dict[str, Any] = {}

    def parse(self, parser: Parser) -> nodes.Node:
        """Turn a tag into an assignment."""
        token = next(parser.stream)
        verb, kind = token.value.split("_")
        if verb == "load":
            parser.stream.expect("name:as")
            target = parser.parse_assign_target(name_only=True)
            body = parser.parse_statements(("name:endload",), drop_needle=True)
            read = nodes.Filter(None, f"parse_{kind}", [], [], None, None)
            return nodes.AssignBlock(target, read, body, lineno=token.lineno)
        path = parser.parse_expression()
        parser.stream.expect("name:as")
        target = parser.parse_assign_target(name_only=True)
        if parser.stream.skip_if("name:with") or parser.stream.skip_if("name:without"):
            parser.stream.expect("name:context")
        call = self.call_method(
            "_imported", [path, nodes.Const(kind), nodes.Const(parser.name)], lineno=token.lineno
        )
        return nodes.Assign(target, call, lineno=token.lineno)

    def _imported(self, path: str, kind: str, parent: str) -> Any:
        template = self.environment.get_template(self.environment.join_path(path, parent))
        text = template.render(self.environment.globals)
        if text not in self._values:
            self._values[text] = LOADERS[kind](text)
        # Templates change what they import, each its own.
        return copy.deepcopy(self._values[text])


class _Compiled(jinja2.BytecodeCache):
    """Compiles each template once, however many machines it is rendered for."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key + bucket.checksum in self._code:
            bucket.bytecode_from_string(self._code[bucket.key + bucket.checksum])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key + bucket.checksum] = bucket.bytecode_to_string()


_COMPILED = _Compiled()


class SaltEnvironment(jinja2.Environment):
    """Jinja as Salt sets it up, over any source of templates.

    :param read: gives a template's text by its path, or ``None``; the second argument is the path
        of the file that wants it, empty for the first.
    :param machine: grains, and what else templates find.
    :param values: functions of ``salt[…]`` that give what a template sets.
    :param pillar: what ``pillar.get`` finds, by its key.
    """

    def __init__(
        self,
        read: Callable[[str, str], str | None],
        machine: Mapping[str, object],
        values: Mapping[str, Value] | None = None,
        pillar: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols", SaltTags],
            undefined=Unset,
            keep_trailing_newline=True,
            loader=jinja2.FunctionLoader(self._load),
            bytecode_cache=_COMPILED,
        )
        self._source = read
        self._parents: dict[str, str] = {}
        self._values: dict[Value, Any] = {}
        self.filters = _Forgiving(self.filters)
        self.filters["json"] = lambda value, **_: json.dumps(value, default=str, sort_keys=True)
        self.filters["parse_yaml"] = read_yaml
        self.filters["parse_json"] = json.loads
        self.filters["regex_escape"] = re.escape
        self.globals |= {
            "salt": Functions(
                {
                    name: functools.partial(self._value, value)
                    for name, value in (values or {}).items()
                }
                | {"pillar.get": functools.partial(_found, pillar or {})}
            ),
            "pillar": Unknown(),
            "opts": Unknown(),
            "raise": _refuse,
            **machine,
        }

    def join_path(self, template: str, parent: str) -> str:
        """Remember who wants a template."""
        self._parents[template] = parent
        return template

    def _value(self, value: Value, *_arguments: object) -> Any:
        """Evaluate a template once, whoever asks for what it sets."""
        if value not in self._values:
            self.join_path(value.template, value.module)
            template = self.get_template(value.template)
            self._values[value] = getattr(template.make_module(), value.name)
        return self._values[value]

    def _load(self, path: str) -> str | None:
        return self._source(path, self._parents.get(path, ""))


class Functions(dict[str, Callable[..., Any]]):
    """``salt[…]``: the few that follow from their arguments, and stand-ins."""

    def __init__(self, more: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__({"slsutil.merge_all": merged, **more})

    def __missing__(self, name: str) -> Unknown:
        return Unknown()

    def __getattr__(self, name: str) -> Any:
        return Unknown()


def _found(
    pillar: Mapping[str, object], key: str, default: object = None, **_options: object
) -> object:
    if key in pillar:
        return copy.deepcopy(pillar[key])
    return Unknown() if default is None else default


def _refuse(reason: str = "") -> None:
    raise RefusalError(str(reason).strip())


def merged(layers: Sequence[Any], **_options: object) -> Any:
    """Return dictionaries merged, the later over the earlier; lists are replaced."""
    result: dict[str, Any] = {}
    for key in dict.fromkeys(itertools.chain.from_iterable(layers)):
        values = [layer[key] for layer in layers if key in layer]
        tables = [value for value in values if isinstance(value, dict)]
        result[key] = merged(tables) if isinstance(values[-1], dict) else values[-1]
    return result
