"""Reader of state files.

- A state file is one JSON document, or several lines of JSON (the output of ``tap | target >
  state.json``). The last complete line is the state.
- A truncated last line is skipped with a warning, because its writer was interrupted. Any other
  invalid line is an error with file and line. An empty state would cause a full sync unnoticed.
- If the document is a STATE message or Meltano's wrapper object, the state inside it is used.
- A number is read as float if the float has the same text, otherwise as Decimal.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tap_core.exceptions import StateFileError
from tap_core.singerlib.json import describe_non_utf8, is_utf8

__all__ = ["as_bytes", "check_bookmarks", "check_partitions", "parse_json", "read_state"]

logger: logging.Logger = logging.getLogger(__name__)


def read_state(text: str | bytes, source: str) -> dict[str, Any]:
    """Return the state stored in a state file, or ``{}`` if the file is empty or contains ``null``.

    Args:
        text: Contents of the file.
        source: Name of the file, for messages.

    Raises:
        StateFileError: The contents are not a state.
    """
    content = as_bytes(text)
    if not content.lstrip():
        return {}
    try:
        document = parse_json(content)
    except ValueError as error:
        document, line = _last_complete_line(content, source, error)
    else:
        line = 1
    return _unwrap(document, f"{source}, line {line}")


def _last_complete_line(content: bytes, source: str, error: ValueError) -> tuple[Any, int]:
    """Return the value and the line number of the last complete line of a file of JSON lines.

    If the last line is truncated, it is skipped with a warning, and the line before it is used.

    Args:
        content: Contents of the file.
        source: Name of the file, for messages.
        error: Error raised when the file was parsed as one document.

    Raises:
        StateFileError: The first line is not JSON, or neither of the last two lines is.
    """
    lines = [(n, line) for n, line in enumerate(content.split(b"\n"), 1) if line.strip(b" \t\r\0")]
    try:
        parse_json(lines[0][1])
    except ValueError:
        raise _make_syntax_error(source, lines[0][0], content, error) from error
    number, line = lines[-1]
    try:
        return parse_json(line), number
    except ValueError:
        logger.warning("%s: line %d is cut off; the line before it is used.", source, number)
    number, line = lines[-2]
    try:
        return parse_json(line), number
    except ValueError as second:
        raise _make_syntax_error(source, number, line, second) from second


def _make_syntax_error(source: str, line: int, content: bytes, error: ValueError) -> StateFileError:
    """Return the error for a state file that is not JSON; its message has the line and column.

    ``content`` is the text that ``error`` is about, the file ``source`` or its line ``line``. If
    the text is not UTF-8, the message says so.
    """
    if not is_utf8(content):
        return StateFileError(f"{source}, line {line}: this is {describe_non_utf8(content)}.")
    if isinstance(error, json.JSONDecodeError):
        return StateFileError(
            f"{source}, line {max(line, error.lineno)}, column {error.colno}: "
            f"this is not JSON: {error.msg}"
        )
    return StateFileError(f"{source}, line {line}: this is not JSON: {error}")


def _unwrap(document: Any, location: str) -> dict[str, Any]:
    """Return the state in a JSON document: a STATE message, Meltano's format or the state itself.

    For None, return ``{}``. ``location`` is the file and line, for error messages.

    Raises:
        StateFileError: The state is not a JSON object.
    """
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise StateFileError(
            f"{location}: a state must be a JSON object, not {type(document).__name__}."
        )
    if document.get("type") == "STATE" and "value" in document:
        return _unwrap(document["value"], location)
    if "singer_state" in document:
        return _unwrap(document["singer_state"], location)
    return document


def as_bytes(text: str | bytes) -> bytes:
    """Return JSON text as UTF-8 bytes without a byte order mark and trailing blanks or NUL bytes.

    Files with such additional bytes are accepted, although they are not valid JSON.
    """
    content = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return content.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n\0")


def parse_json(text: bytes) -> Any:
    """Parse a JSON document; the non-standard constants NaN and Infinity become None.

    Raises:
        ValueError: The text is not JSON.
    """
    try:
        return json.loads(text, parse_float=_number, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("the document is nested too deeply") from error
    except ArithmeticError as error:
        raise ValueError("the exponent of a number is too large") from error


def _number(text: str) -> float | Decimal:
    """Convert a JSON number to a float if the float has the same text, otherwise to a Decimal."""
    nearest = float(text)
    return nearest if repr(nearest) == text else Decimal(text)


def check_bookmarks(state: Mapping[str, Any]) -> None:
    """Check that each stream's bookmark is an object, and its ``partitions`` a list.

    Raises:
        StateFileError: A value has the wrong type; the message has its path in the state.
    """
    bookmarks = _expect(state.get("bookmarks"), Mapping, "bookmarks")
    for stream, bookmark in (bookmarks or {}).items():
        entry = _expect(bookmark, Mapping, f"bookmarks.{stream}") or {}
        _expect(entry.get("partitions"), list, f"bookmarks.{stream}.partitions")


def check_partitions(state: Mapping[str, Any]) -> None:
    """Check that each partition in a state is an object, and also its context.

    Raises:
        StateFileError: The state is invalid; the message has the path of the value in the state.
    """
    check_bookmarks(state)
    for stream, bookmark in (state.get("bookmarks") or {}).items():
        for index, partition in enumerate((bookmark or {}).get("partitions") or ()):
            path = f"bookmarks.{stream}.partitions.{index}"
            if not isinstance(partition, Mapping):
                raise _make_type_error(partition, Mapping, path)
            if not isinstance(context := partition.get("context", {}), Mapping):
                raise _make_type_error(context, Mapping, f"{path}.context")


def _expect(value: Any, expected: type, path: str) -> Any:
    """Return ``value`` if it is None or an instance of ``expected``.

    Raises:
        StateFileError: The value has another type. The message contains ``path``, its path in the
            state.
    """
    if value is None or isinstance(value, expected):
        return value
    raise _make_type_error(value, expected, path)


def _make_type_error(value: Any, expected: type, path: str) -> StateFileError:
    name = "a list" if expected is list else "an object"
    return StateFileError(f"State, {path}: expected {name}, found {type(value).__name__}.")
