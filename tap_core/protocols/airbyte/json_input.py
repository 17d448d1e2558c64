"""Typed access to the values of a user's JSON document, with the path of each value in errors.

``null`` counts as a missing value, because clients write every possible field. An invalid value
raises the error class of the document; the message names the file, the path and the expected type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tap_core.state.reader import parse_json

__all__ = ["JsonNode", "as_bytes", "describe_error", "parse"]

_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class JsonNode:
    """Value in a JSON document and its location there. A missing value is None.

    ``source`` is the name of the document in error messages. ``error`` is the class of error to
    raise.
    """

    value: Any
    source: str
    error: type[Exception]
    place: str = ""

    def child(self, *names: str) -> JsonNode:
        """Return the first of the members with these names that has a value.

        If no such member has a value, return a missing value.
        """
        members = self.members()
        name = next((name for name in names if members.get(name) is not None), names[0])
        place = f"{self.place}.{name}" if self.place else name
        return JsonNode(members.get(name), self.source, self.error, place)

    def called(self, name: object) -> JsonNode:
        """Return a copy with ``name``, such as a stream's name, added to its location in errors."""
        return JsonNode(self.value, self.source, self.error, f"{self.place} ({name!r})")

    def items(self) -> Iterator[JsonNode]:
        """Yield the items of a list. A missing value counts as an empty list."""
        for number, item in enumerate(self._get_typed(list, [])):
            yield JsonNode(item, self.source, self.error, f"{self.place}[{number}]")

    def members(self) -> dict[str, Any]:
        """Return the members of an object. A missing value counts as an empty object."""
        found: dict[str, Any] = self._get_typed(dict, {})
        return found

    def text(self) -> str | None:
        """Return the value as a string, or None for a missing value."""
        found: str | None = self._get_typed(str, None)
        return found

    def needed(self) -> str:
        """Return the value as a string, which may be empty. A missing value is an error."""
        found = self.text()
        if found is None:
            raise self.refused("a string")
        return found

    def flag(self) -> bool:
        """Return the value as a boolean. A missing value counts as False."""
        return self._get_typed(bool, None) is True

    def integer(self) -> int | None:
        """Return the value as an integer, or None for a missing value. 5.0 is accepted as 5."""
        if isinstance(self.value, float) and self.value.is_integer():
            return int(self.value)
        found: int | None = self._get_typed(int, None)
        return found

    def path(self) -> tuple[str, ...]:
        """Return the value, a list of names, as the path to a field.

        A string is a path of one name.
        """
        if isinstance(self.value, str):
            return (self.value,)
        return tuple(item.needed() for item in self.items())

    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Return the value as a list of paths to fields."""
        return tuple(item.path() for item in self.items())

    def refused(self, wanted: str) -> Exception:
        """Return the error for a value of the wrong type.

        ``wanted`` is the right type as text for the message, such as "a string".
        """
        found = "nothing" if self.value is None else _KINDS.get(type(self.value), "a number")
        return self.wrong(f"there is {found} where {wanted} is needed")

    def wrong(self, sentence: str) -> Exception:
        """Return an error with ``sentence`` as message, after the document and the location."""
        return self.error(": ".join(part for part in (self.source, self.place, sentence) if part))

    def _get_typed(self, kind: type, nothing: Any) -> Any:
        if self.value is None:
            return nothing
        if type(self.value) is not kind:
            raise self.refused(_KINDS.get(kind, "an integer"))
        return self.value


def parse(text: str | bytes, source: str, error: type[Exception]) -> JsonNode:
    """Parse a JSON document. ``source`` is its name in error messages.

    Raises:
        error: The document is not valid JSON.
    """
    try:
        return JsonNode(parse_json(as_bytes(text)), source, error)
    except ValueError as fault:
        raise JsonNode(None, source, error).wrong(
            f"this is not JSON: {describe_error(fault)}"
        ) from None


def as_bytes(text: str | bytes) -> bytes:
    """Return text as bytes. A byte order mark and trailing whitespace and NUL bytes are removed."""
    content = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return content.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n\0")


def describe_error(fault: ValueError) -> str:
    """Return the reason why a text is not valid JSON. The line and column are added if known."""
    if isinstance(fault, json.JSONDecodeError):
        return f"{fault.msg} (line {fault.lineno}, column {fault.colno})"
    return "it is not UTF-8 text" if isinstance(fault, UnicodeError) else str(fault)
