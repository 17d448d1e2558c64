"""Reading a state file.

Rules of the room:

- A state file is one JSON document, or lines of which each is one (what
  ``tap | target > state.json`` leaves). The last whole line is the state.
- A last line that is cut off is left out with a warning: its writer died in it. Any other
  line that is no state is an error with file and line, never an empty state: that would
  silently read everything again.
- A STATE message, and the wrapping in which Meltano keeps states, are taken off.
- Numbers come back as they stand: a float where that gives the same text, else a Decimal.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tap_core.exceptions import StateFileError

__all__ = ["check_bookmarks", "parse_json", "read_state"]

logger: logging.Logger = logging.getLogger(__name__)


def read_state(text: str | bytes, source: str) -> dict[str, Any]:
    """Return the state that a file holds; ``{}`` for an empty file or ``null``.

    ``source`` names the file in messages. Raises StateFileError.
    """
    content = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    content = content.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n\0")
    if not content.lstrip():
        return {}
    try:
        found = parse_json(content)
    except ValueError as fault:
        found, line = _last_whole_line(content, source, fault)
    else:
        line = 1
    return _unwrap(found, f"{source}, line {line}")


def _last_whole_line(content: bytes, source: str, fault: ValueError) -> tuple[Any, int]:
    """Return the last line that is JSON, and its number. The first has to be JSON too."""
    lines = [(n, line) for n, line in enumerate(content.split(b"\n"), 1) if line.strip(b" \t\r\0")]
    try:
        parse_json(lines[0][1])
    except ValueError:
        raise _fault(source, lines[0][0], fault) from fault
    number, line = lines[-1]
    try:
        return parse_json(line), number
    except ValueError:
        logger.warning("%s: line %d is cut off; the line before it is used.", source, number)
    number, line = lines[-2]
    try:
        return parse_json(line), number
    except ValueError as second:
        raise _fault(source, number, second) from second


def _fault(source: str, line: int, fault: ValueError) -> StateFileError:
    if isinstance(fault, json.JSONDecodeError):
        return StateFileError(
            f"{source}, line {max(line, fault.lineno)}, column {fault.colno}: "
            f"this is not JSON: {fault.msg}"
        )
    return StateFileError(f"{source}, line {line}: this is not JSON: {fault}")


def _unwrap(found: Any, where: str) -> dict[str, Any]:
    """Take off what may stand around a state."""
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise StateFileError(f"{where}: a state is a JSON object, not {type(found).__name__}.")
    if found.get("type") == "STATE" and "value" in found:
        return _unwrap(found["value"], where)
    if "singer_state" in found:
        return _unwrap(found["singer_state"], where)
    return found


def parse_json(text: bytes) -> Any:
    """Read a JSON document; NaN and the infinities, which JSON has not, become null.

    Raises ValueError: it is none.
    """
    try:
        return json.loads(text, parse_float=_number, parse_constant=lambda _: None)
    except RecursionError as fault:
        raise ValueError("it is nested too deeply") from fault
    except ArithmeticError as fault:
        raise ValueError("a number in it has too large an exponent") from fault


def _number(text: str) -> float | Decimal:
    nearest = float(text)
    return nearest if repr(nearest) == text else Decimal(text)


def check_bookmarks(state: Mapping[str, Any]) -> None:
    """Raise StateFileError, with the place, unless bookmarks are objects with lists of partitions.

    An entry of such a list that has no context is kept, and never found.
    """
    bookmarks = _expect(state.get("bookmarks"), Mapping, "bookmarks")
    for stream, bookmark in (bookmarks or {}).items():
        found = _expect(bookmark, Mapping, f"bookmarks.{stream}") or {}
        _expect(found.get("partitions"), list, f"bookmarks.{stream}.partitions")


def _expect(value: Any, kind: type, place: str) -> Any:
    if value is None or isinstance(value, kind):
        return value
    name = "a list" if kind is list else "an object"
    raise StateFileError(f"State, {place}: this is not {name} but {type(value).__name__}.")
