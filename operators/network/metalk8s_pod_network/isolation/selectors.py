"""Label selectors, as the API defines them for all its objects.

Source: ``LabelSelector`` of ``k8s.io/apimachinery/pkg/apis/meta/v1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Need:
    """One requirement on the value of a label.

    :param operator: ``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet it; an operator that nobody knows is met by none."""
        value = labels.get(self.key)
        if self.operator == "In":
            return value is not None and value in self.values
        if self.operator == "NotIn":
            return value is None or value not in self.values
        if self.operator == "Exists":
            return value is not None
        return self.operator == "DoesNotExist" and value is None


@dataclass(frozen=True)
class Selector:
    """All of its needs have to be met; without any, everything is selected."""

    needs: frozenset[Need] = frozenset()

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Tell whether it selects what has these labels."""
        return all(need.fits(labels) for need in self.needs)


def selector(document: Mapping[str, Any]) -> Selector:
    """Read a selector of an object."""
    exact = (document.get("matchLabels") or {}).items()
    expressions = document.get("matchExpressions") or []
    return Selector(
        frozenset(Need(key, "In", frozenset({value})) for key, value in exact)
        | frozenset(
            Need(one["key"], one["operator"], frozenset(one.get("values") or ()))
            for one in expressions
        )
    )
