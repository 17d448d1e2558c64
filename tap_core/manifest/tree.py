"""The document of a manifest: mappings and lists that know where they were written.

Rules of the room: plain dicts and lists with an address, nothing is resolved here. Whoever only
reads them need not know; `plain` gives what other libraries take.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["Items", "Node", "plain"]


class Node(dict[Any, Any]):
    """A mapping of a manifest."""

    __slots__ = ("filled", "line", "lines", "parameters", "path")

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


class Items(list[Any]):
    """A list of a manifest."""

    __slots__ = ("lines",)

    def __init__(self, *args: Any, lines: list[int] | None = None) -> None:
        super().__init__(*args)
        self.lines: list[int] = lines or []
        """The line of each item."""


def plain(value: Any) -> Any:
    """Return a part of a manifest as plain dicts and lists, a copy; keys are text, as in JSON."""
    if isinstance(value, dict):
        return {_key(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value


def _key(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key)
