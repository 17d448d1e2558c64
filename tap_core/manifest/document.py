"""The document of a manifest: mappings and lists that know where they were written.

Rules of the room: plain dicts and lists with an address, nothing is resolved here. Whoever only
reads them need not know; `plain` gives what other libraries take.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "UNKNOWN",
    "DataMapping",
    "DataText",
    "ListNode",
    "MappingNode",
    "OwnText",
    "as_data",
    "is_larger",
    "to_nodes",
    "to_plain",
]


class _Unknown:
    """There is one, whoever copies it."""

    def __deepcopy__(self, memo: Any) -> _Unknown:
        return self

    def __repr__(self) -> str:
        return "<not known yet>"


UNKNOWN: Final[Any] = _Unknown()
"""Stands for what cannot be known yet: for want of a configuration, or since it was found to be
wrong. As a key of parameters it says that there may be any others."""


class MappingNode(dict[Any, Any]):
    """A mapping of a manifest."""

    __slots__ = ("filled", "line", "lines", "origins", "parameters", "path")

    def __init__(self, *args: Any, line: int = 0, lines: Mapping[Any, int] | None = None) -> None:
        super().__init__(*args)
        self.line: int = line
        """The line where it begins, counted from 1; 0 where nobody knows."""
        self.lines: dict[Any, int] = dict(lines or {})
        """The line of each key."""
        self.path: str = ""
        """The keys that lead here, such as ``streams[2].retriever``; known of components."""
        self.parameters: Mapping[str, Any] = {}
        """``$parameters`` of a component: its own, and those of what it is part of."""
        self.filled: frozenset[str] = frozenset()
        """Keys whose value is a parameter's."""
        self.origins: frozenset[Any] | None = None
        """Origins of the template's own requesters, where an answer has filled a template."""


class DataText(str):
    """A text that an answer or a setting brought: no template, whatever stands in it."""

    __slots__ = ()


class OwnText(str):
    """A text of the manifest itself, told from data where a template sees both."""

    __slots__ = ()


class DataMapping(dict[Any, Any]):
    """A mapping that an answer or a setting brought: no component, whatever its keys are."""

    __slots__ = ()


def as_data(value: Any) -> Any:
    """Return a value of an answer or a setting as data, on all its levels; a copy."""
    if isinstance(value, str):
        return DataText(value)
    if isinstance(value, dict):
        return DataMapping({as_data(key): as_data(one) for key, one in value.items()})
    return [as_data(one) for one in value] if isinstance(value, (list, tuple)) else value


class ListNode(list[Any]):
    """A list of a manifest."""

    __slots__ = ("lines",)

    def __init__(self, *args: Any, lines: list[int] | None = None) -> None:
        super().__init__(*args)
        self.lines: list[int] = lines or []
        """The line of each item."""


def is_larger(value: Any, most: int) -> bool:
    """Return whether a part of a manifest has more nodes, those that are shared counted anew."""
    return _size(value, most, {}) > most


def _size(value: Any, most: int, known: dict[int, int]) -> int:
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(one, most, known) for one in inner)
    return min(known[id(value)], most + 1)


def to_plain(value: Any) -> Any:
    """Return a part of a manifest as plain dicts and lists, a copy; keys are text, as in JSON."""
    if isinstance(value, dict):
        return {_key(key): to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [to_plain(inner) for inner in value]
    return str(value) if isinstance(value, DataText) else value


def _key(key: Any) -> str:
    return str(key) if isinstance(key, str) else json.dumps(key, default=str)


def to_nodes(value: Any, line: int) -> Any:
    """Return plain dicts and lists as a part of a manifest, a copy.

    What has an address keeps it; everything else is told to stand in ``line``.
    """
    if isinstance(value, DataMapping):
        return value
    if isinstance(value, dict):
        lines: Mapping[Any, int] = getattr(value, "lines", {})
        here = getattr(value, "line", 0) or line
        known = {key: lines.get(key) or here for key in value}
        made = MappingNode(
            {key: to_nodes(inner, known[key]) for key, inner in value.items()},
            line=here,
            lines=known,
        )
        made.filled = getattr(value, "filled", made.filled)
        return made
    if isinstance(value, list):
        given: list[int] = getattr(value, "lines", [])
        at = [*given[: len(value)], *[line] * (len(value) - len(given))]
        return ListNode([to_nodes(one, its) for one, its in zip(value, at, strict=True)], lines=at)
    return value
