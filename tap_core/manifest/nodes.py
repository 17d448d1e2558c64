"""Nodes of a manifest: dicts and lists with the line numbers of their YAML source.

The nodes are subclasses of dict and list, so that code which only reads values can ignore the line
numbers. Subclasses of str and dict mark values that come from a response or the config. References
and templates are not resolved here. `to_plain` converts nodes to plain values for other libraries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = [
    "UNKNOWN",
    "UNKNOWN_OPTION",
    "DataMapping",
    "DataText",
    "ListNode",
    "MappingNode",
    "OwnText",
    "as_data",
    "is_larger",
    "iterate_nodes",
    "to_nodes",
    "to_plain",
]


class _Unknown:
    """Type of `UNKNOWN`, the marker for a value that a linter does not know.

    A copy of the marker is the same object.
    """

    def __deepcopy__(self, memo: Any) -> _Unknown:
        return self

    def __repr__(self) -> str:
        return "<not known yet>"


UNKNOWN: Final[Any] = _Unknown()
"""Placeholder for a value that the linter does not know.

The value may come from the config, which is missing, or it may have a problem. As a key of
parameters it means that there may be further parameters with any name.
"""


class _UnknownOption:
    """Type of `UNKNOWN_OPTION`: every use but a comparison with ``is`` raises a TypeError."""

    def _refuse(self, *_: Any) -> Any:
        raise TypeError("The value of this option is not known.")

    __bool__ = __call__ = __eq__ = __format__ = __getattribute__ = __repr__ = __str__ = _refuse
    __hash__ = _refuse


UNKNOWN_OPTION: Final[Any] = _UnknownOption()
"""Value of an option that the linter does not know, in a component created to be checked.

A check that needs the value raises a TypeError; a check of other options is not affected.
"""


class MappingNode(dict[Any, Any]):
    """Mapping in an Airbyte manifest, such as a component, with its position in the YAML file.

    It also has the ``$parameters`` that its templates may use.
    """

    __slots__ = ("filled", "line", "lines", "origins", "parameters", "path")

    def __init__(self, *args: Any, line: int = 0, lines: Mapping[Any, int] | None = None) -> None:
        super().__init__(*args)
        self.line: int = line
        """Line of the first key, from 1; 0 if unknown."""
        self.lines: dict[Any, int] = dict(lines or {})
        """Line of each key."""
        self.path: str = ""
        """Path of keys to this component, such as ``streams[2].retriever``."""
        self.parameters: Mapping[str, Any] = {}
        """``$parameters`` that apply to this component: its own and inherited ones."""
        self.filled: frozenset[str] = frozenset()
        """Keys whose value comes from ``$parameters``, not from the component itself."""
        self.origins: frozenset[Any] | None = None
        """Origins (scheme, host, port) in the stream template; only they may receive credentials.

        None if the component was not filled with values from an API response.
        """


class DataText(str):
    """Text from a response or the config, which is never a template, even if it contains braces."""

    __slots__ = ()


class OwnText(str):
    """Text written in the manifest. The class distinguishes it from data in rendered text."""

    __slots__ = ()


class DataMapping(dict[Any, Any]):
    """Mapping from a response or the config, which is never a component, even with a ``type``."""

    __slots__ = ()


def as_data(value: Any) -> Any:
    """Return a copy of a response or config value, marked as data at all nesting levels.

    Texts become `DataText`, which is never a template, and mappings `DataMapping`, which is never a
    component.
    """
    if isinstance(value, str):
        return DataText(value)
    if isinstance(value, dict):
        return DataMapping({as_data(key): as_data(item) for key, item in value.items()})
    return [as_data(item) for item in value] if isinstance(value, (list, tuple)) else value


class ListNode(list[Any]):
    """List in an Airbyte manifest, with the line numbers of its items in the YAML file."""

    __slots__ = ("lines",)

    def __init__(self, *args: Any, lines: list[int] | None = None) -> None:
        super().__init__(*args)
        self.lines: list[int] = lines or []
        """Line of each item, from 1."""


def iterate_nodes(part: Any) -> Iterator[MappingNode]:
    """Yield the mappings in a part of a manifest, itself included, parents before children."""
    if isinstance(part, MappingNode):
        yield part
    if isinstance(part, Mapping):
        part = part.values()
    elif not isinstance(part, list):
        return
    for inner in part:
        yield from iterate_nodes(inner)


def is_larger(value: Any, limit: int) -> bool:
    """Return True if a YAML value contains more than ``limit`` values, at all nesting levels.

    A value that several parents share (a YAML alias) is counted once for each parent.
    """
    return _count_values(value, limit, {}) > limit


def _count_values(value: Any, limit: int, counts: dict[int, int]) -> int:
    """Return the number of values inside a value, or ``limit`` + 1 if there are more.

    ``counts`` caches the results: the number of values by the id of the dict or list.
    """
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in counts:
        inner = value.values() if isinstance(value, dict) else value
        counts[id(value)] = 1 + sum(_count_values(item, limit, counts) for item in inner)
    return min(counts[id(value)], limit + 1)


def to_plain(value: Any) -> Any:
    """Convert a part of a manifest to plain dicts and lists; keys become strings, as in JSON."""
    if isinstance(value, dict):
        return {_to_json_key(key): to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [to_plain(inner) for inner in value]
    return str(value) if isinstance(value, DataText) else value


def _to_json_key(key: Any) -> str:
    return str(key) if isinstance(key, str) else json.dumps(key, default=str)


def to_nodes(value: Any, line: int) -> Any:
    """Convert plain dicts and lists to nodes of a manifest, with line numbers.

    Values that already have line numbers keep them; all others get ``line``.
    """
    if isinstance(value, DataMapping):
        return value
    if isinstance(value, dict):
        lines: Mapping[Any, int] = getattr(value, "lines", {})
        first_line = getattr(value, "line", 0) or line
        all_lines = {key: lines.get(key) or first_line for key in value}
        node = MappingNode(
            {key: to_nodes(inner, all_lines[key]) for key, inner in value.items()},
            line=first_line,
            lines=all_lines,
        )
        node.filled = getattr(value, "filled", node.filled)
        return node
    if isinstance(value, list):
        known: list[int] = getattr(value, "lines", [])
        item_lines = [*known[: len(value)], *[line] * (len(value) - len(known))]
        return ListNode(map(to_nodes, value, item_lines), lines=item_lines)
    return value
