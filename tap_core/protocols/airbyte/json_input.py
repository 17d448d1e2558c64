"""Typed access to the values of a JSON file that a user passes, such as a catalog.

``null`` counts as a missing value, because clients write every possible field. The error for an
invalid value names the file, the path of the value and the expected type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from tap_core.singerlib.json import describe_json_error
from tap_core.state.reader import as_bytes, parse_json

__all__ = ["JsonNode", "parse"]

_T = TypeVar("_T")

_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class JsonNode:
    """Value in a JSON document, with its path and the document's name for error messages.

    Attributes:
        value: The JSON value; None if it is missing or null.
        source: Name of the document.
        error: Class of the error that the methods raise for a value of the wrong type.
        place: Path of the value in the document, such as ``streams[0].name``.
    """

    value: Any
    source: str
    error: type[Exception]
    place: str = ""

    def child(self, *names: str) -> JsonNode:
        """Return a member of the node's JSON object: the first in ``names`` that is not null.

        If all are missing or null, return a node with the value None.
        """
        members = self.members()
        name = next((name for name in names if members.get(name) is not None), names[0])
        path = f"{self.place}.{name}" if self.place else name
        return JsonNode(members.get(name), self.source, self.error, path)

    def with_name(self, name: object) -> JsonNode:
        """Return a copy that shows ``name`` in error messages, as in ``streams[0] ('users')``."""
        return JsonNode(self.value, self.source, self.error, f"{self.place} ({name!r})")

    def items(self) -> Iterator[JsonNode]:
        """Yield the items of the node's list as nodes. A missing value counts as an empty list."""
        for number, item in enumerate(self._get_typed(list) or ()):
            yield JsonNode(item, self.source, self.error, f"{self.place}[{number}]")

    def members(self) -> dict[str, Any]:
        """Return the members of the node's JSON object by name, or ``{}`` if it is missing."""
        return self._get_typed(dict) or {}

    def text(self) -> str | None:
        """Return the node's string, or None if it is missing. Raise an error for other types."""
        return self._get_typed(str)

    def required_text(self) -> str:
        """Return the node's string, which may be empty. Raise an error if it is missing."""
        text = self.text()
        if text is None:
            raise self.make_type_error("a string")
        return text

    def flag(self) -> bool:
        """Return the node's boolean, False if it is missing. Raise an error for other types."""
        return self._get_typed(bool) is True

    def integer(self) -> int | None:
        """Return the node's number as an integer (5.0 becomes 5), or None if it is missing."""
        if isinstance(self.value, float) and self.value.is_integer():
            return int(self.value)
        return self._get_typed(int)

    def path(self) -> tuple[str, ...]:
        """Return the field path in the node: a field name or a list of nested field names.

        For example, ``["a", "b"]`` becomes ``("a", "b")``, and ``"a"`` becomes ``("a",)``.
        """
        if isinstance(self.value, str):
            return (self.value,)
        return tuple(item.required_text() for item in self.items())

    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Return the list of field paths in the node as a tuple of tuples.

        For example, ``["a", ["b", "c"]]`` becomes ``(("a",), ("b", "c"))``.
        """
        return tuple(item.path() for item in self.items())

    def make_type_error(self, expected: str) -> Exception:
        """Return the error for a value that is not of the type ``expected``, such as "a string"."""
        actual = "nothing" if self.value is None else _KINDS.get(type(self.value), "a number")
        return self.make_error(f"there is {actual} where {expected} is needed")

    def make_error(self, sentence: str) -> Exception:
        """Return an error with the message ``"<document>: <path of the value>: <sentence>"``."""
        return self.error(": ".join(part for part in (self.source, self.place, sentence) if part))

    def _get_typed(self, kind: type[_T]) -> _T | None:
        if self.value is not None and type(self.value) is not kind:
            raise self.make_type_error(_KINDS.get(kind, "an integer"))
        value: _T | None = self.value
        return value


def parse(text: str | bytes, source: str, error: type[Exception]) -> JsonNode:
    """Parse a JSON document and return its root node. ``source`` is its name in error messages.

    Raises:
        error: The document is not valid JSON.
    """
    try:
        return JsonNode(parse_json(as_bytes(text)), source, error)
    except ValueError as fault:
        raise JsonNode(None, source, error).make_error(
            f"this is not JSON: {describe_json_error(fault)}"
        ) from None
