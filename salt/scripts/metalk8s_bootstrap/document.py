"""YAML read with the line of every value, so that a complaint can name it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from metalk8s_bootstrap.problems import Group, Problem

YAML_REMEDY = "Correct the YAML."
# Mappings and lists inside each other. A configuration has 5; Python gives up at some hundreds.
DEPTH = 20
# Stands for a value that was complained about already.
UNREADABLE = object()
KINDS = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", int: "a number"}


@dataclass(frozen=True)
class Value:
    """A value and where it is written.

    :param key: dotted path from the document's root; empty for the root itself.
    :param data: scalar, or a mapping or list of values.
    """

    key: str
    line: int
    data: Any

    def plain(self) -> Any:
        """Return it as YAML means it, without lines."""
        if isinstance(self.data, Mapping):
            return {key: value.plain() for key, value in self.data.items()}
        if isinstance(self.data, list):
            return [value.plain() for value in self.data]
        return self.data


@dataclass
class Reader:
    """A file being read; collects what is wrong with it."""

    path: Path
    problems: list[Problem] = field(default_factory=list)

    def complain(self, line: int, what: str, remedy: str) -> None:
        """Note something that is wrong at a line (0: no line in particular)."""
        where = f"{self.path}:{line}" if line else str(self.path)
        self.problems.append(Problem(Group.CONFIGURATION, where, what, remedy))

    def read(self) -> Value | None:
        """Return the whole document; ``None`` when there is none to speak about."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self.complain(0, "there is no such file", "Write it; see bootstrap.example.yaml.")
            return None
        except OSError as error:
            self.complain(0, f"cannot be read: {error.strerror}", "Give root the right to read it.")
            return None
        except UnicodeDecodeError as error:
            self.complain(0, f"is not UTF-8: byte {error.start} is not", "Save it as UTF-8.")
            return None
        try:
            if not self._is_plain(text):
                return None
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 0
            self.complain(line, f"is not YAML: {error.problem}", YAML_REMEDY)
            return None
        except yaml.YAMLError as error:
            self.complain(0, f"is not YAML: {error}", YAML_REMEDY)
            return None
        if node is None:
            self.complain(0, "is empty", "Write it; see bootstrap.example.yaml.")
            return None
        return self._value("", node)

    def _is_plain(self, text: str) -> bool:
        """Complain about what makes much of a little: aliases, and nesting without end.

        :raises yaml.YAMLError: it is not YAML.
        """
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            assert event.start_mark
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent):
                self.complain(line, f"*{event.anchor} is an alias", "Write out what it stands for.")
                return False
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEPTH:
                self.complain(line, f"is nested more than {DEPTH} deep", YAML_REMEDY)
                return False
        return True

    def _value(self, key: str, node: yaml.Node) -> Value:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return Value(key, line, self._mapping(key, node))
        if isinstance(node, yaml.SequenceNode):
            items = [self._value(f"{key}[{index}]", item) for index, item in enumerate(node.value)]
            return Value(key, line, items)
        try:
            return Value(key, line, yaml.SafeLoader("").construct_object(node))
        except (yaml.YAMLError, ValueError) as error:
            self.complain(line, f"{key}: {node.value}: {error}", YAML_REMEDY)
            return Value(key, line, UNREADABLE)

    def _mapping(self, key: str, node: yaml.MappingNode) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for name_node, value_node in node.value:
            line = name_node.start_mark.line + 1
            if not isinstance(name_node, yaml.ScalarNode):
                self.complain(line, "a key is no text", YAML_REMEDY)
                continue
            name = name_node.value
            path = f"{key}.{name}" if key else name
            value = self._value(path, value_node)
            # An empty value has no place of its own.
            value = Value(value.key, line if value.data is None else value.line, value.data)
            if name in found:
                before = found[name].line
                self.complain(line, f"{path} is there twice, first in line {before}", "Remove one.")
            else:
                found[name] = value
        return found


@dataclass(frozen=True)
class Field:
    """What a key may hold.

    :param check: gets the value, and complains by ``reader.complain``; returns what it means.
    """

    check: Callable[[Reader, Value], Any]
    required: bool = True
    default: Any = None


def mapping(fields: Mapping[str, Field]) -> Callable[[Reader, Value], dict[str, Any]]:
    """Check a mapping with exactly these keys; what is wrong in it comes out as its default."""

    def check(reader: Reader, value: Value) -> dict[str, Any]:
        found = value.data if expect(reader, value, dict) else {}
        for name, inner in found.items():
            if name not in fields:
                known = ", ".join(fields)
                reader.complain(
                    inner.line, f"{inner.key} is not known", f"Remove it; known here: {known}."
                )
        result = {}
        for name, wanted in fields.items():
            if name in found:
                result[name] = wanted.check(reader, found[name])
                continue
            result[name] = wanted.default
            if wanted.required and isinstance(value.data, dict):
                path = f"{value.key}.{name}" if value.key else name
                reader.complain(value.line, f"{path} is missing", f"Add it; see {EXAMPLE}.")
        return result

    return check


EXAMPLE = "bootstrap.example.yaml"


def expect(reader: Reader, value: Value, kind: type) -> bool:
    """Complain about a value of another kind."""
    if type(value.data) is kind:
        return True
    if value.data is UNREADABLE:
        return False
    shown = "nothing" if value.data is None else KINDS.get(type(value.data), "of another type")
    scalar = f" ({value.data})" if isinstance(value.data, (str, int, float)) else ""
    reader.complain(
        value.line,
        f"{value.key or 'the document'} is {shown}{scalar}, expected {KINDS[kind]}",
        f"Write {KINDS[kind]}.",
    )
    return False


def texts(reader: Reader, value: Value, *, may_be_one: bool) -> Sequence[Value]:
    """Return the texts of a list of at least one, or of a single text where that is allowed."""
    if may_be_one and type(value.data) is str:
        return [value]
    if not expect(reader, value, list):
        return []
    if not value.data:
        reader.complain(value.line, f"{value.key} is an empty list", "Name at least one.")
    return [item for item in value.data if expect(reader, item, str)]
