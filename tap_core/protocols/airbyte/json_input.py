"""What a user gives as a JSON document: each value is asked for its kind, with its place.

Rules of the room: ``null`` means that nothing is there, because clients write every field that
there could be. Whatever is not as it should be raises the error of the document, which names
the file, the place in it, and what was expected there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tap_core.state.reader import parse_json

__all__ = ["JsonNode", "as_bytes", "describe_error", "parse"]

_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value of a document, and where it stands; ``value`` is None where nothing does.

    ``source`` names the document in messages; ``error`` is raised with them.
    """

    value: Any
    source: str
    error: type[Exception]
    place: str = ""

    def child(self, *names: str) -> JsonNode:
        """Return the member of the first of these names that an object has."""
        members = self.members()
        name = next((name for name in names if members.get(name) is not None), names[0])
        place = f"{self.place}.{name}" if self.place else name
        return JsonNode(members.get(name), self.source, self.error, place)

    def called(self, name: object) -> JsonNode:
        """Return the node with a name beside its place, for people to find it."""
        return JsonNode(self.value, self.source, self.error, f"{self.place} ({name!r})")

    def items(self) -> Iterator[JsonNode]:
        """Yield the items of a list; none of nothing."""
        for number, item in enumerate(self._get_typed(list, [])):
            yield JsonNode(item, self.source, self.error, f"{self.place}[{number}]")

    def members(self) -> dict[str, Any]:
        """Return an object; an empty one for nothing."""
        found: dict[str, Any] = self._get_typed(dict, {})
        return found

    def text(self) -> str | None:
        """Return a text."""
        found: str | None = self._get_typed(str, None)
        return found

    def needed(self) -> str:
        """Return a text, which has to be there; an empty one is."""
        found = self.text()
        if found is None:
            raise self.refused("a text")
        return found

    def flag(self) -> bool:
        """Return true or false; false for nothing."""
        return self._get_typed(bool, None) is True

    def integer(self) -> int | None:
        """Return a whole number, which some writers give a fraction of zero."""
        if isinstance(self.value, float) and self.value.is_integer():
            return int(self.value)
        found: int | None = self._get_typed(int, None)
        return found

    def path(self) -> tuple[str, ...]:
        """Return the names on the way to a field; a bare text is a way of one."""
        if isinstance(self.value, str):
            return (self.value,)
        return tuple(item.needed() for item in self.items())

    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Return a list of ways to fields."""
        return tuple(item.path() for item in self.items())

    def refused(self, wanted: str) -> Exception:
        """Return the error for a value that is not what is wanted."""
        found = "nothing" if self.value is None else _KINDS.get(type(self.value), "a number")
        return self.wrong(f"there is {found} where {wanted} is needed")

    def wrong(self, sentence: str) -> Exception:
        """Return the error for what is wrong here."""
        return self.error(": ".join(part for part in (self.source, self.place, sentence) if part))

    def _get_typed(self, kind: type, nothing: Any) -> Any:
        if self.value is None:
            return nothing
        if type(self.value) is not kind:
            raise self.refused(_KINDS.get(kind, "a whole number"))
        return self.value


def parse(text: str | bytes, source: str, error: type[Exception]) -> JsonNode:
    """Read a JSON document; raises ``error`` where it is none."""
    try:
        return JsonNode(parse_json(as_bytes(text)), source, error)
    except ValueError as fault:
        raise JsonNode(None, source, error).wrong(
            f"this is not JSON: {describe_error(fault)}"
        ) from None


def as_bytes(text: str | bytes) -> bytes:
    """Return a text without what some writers put before and behind it."""
    content = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return content.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n\0")


def describe_error(fault: ValueError) -> str:
    """Say why a text is not JSON, and where."""
    if isinstance(fault, json.JSONDecodeError):
        return f"{fault.msg} (line {fault.lineno}, column {fault.colno})"
    return "it is not UTF-8 text" if isinstance(fault, UnicodeError) else str(fault)
