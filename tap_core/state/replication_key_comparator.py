"""Comparison of two replication key values.

- The property's schema decides how values are compared. Date-times and dates are compared as
  points in time. A date is its midnight, and a value without an offset is in UTC. Numbers, also
  decimals in text (``x-singer.decimal``), are compared as numbers, and all other values as text.
- A comparison never raises. Values that do not match the schema are compared as text, with
  one warning per stream.
- Values come from a record (a Python object) or from a state (JSON). An earlier version of the
  tap may have written the state. So values of any two types can be compared.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

from tap_core.parsing.iso8601 import ParsedInstant, parse_instant
from tap_core.schema.numeric_bounds import DECIMAL_FORMATS
from tap_core.typing.values import to_json_compatible

__all__ = [
    "NULL_VALUE",
    "ReplicationKeyComparator",
    "ValueKind",
    "is_missing",
    "make_comparator",
    "parse_number",
]

logger: logging.Logger = logging.getLogger(__name__)

NULL_VALUE = "The replication key of a record is null: its value does not move the bookmark."


class ValueKind(Enum):
    """Type used to compare the values of a replication key."""

    INSTANT = "a point in time"
    NUMBER = "a number"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ReplicationKeyComparator:
    """Comparator of the replication key values of one stream, created by `make_comparator`.

    ``kind`` decides how values are compared: as points in time, as numbers or as text. ``stream``
    is the stream's name, for warnings.
    """

    kind: ValueKind
    stream: str = ""
    _warned_topics: set[str] = field(default_factory=set, compare=False, repr=False)

    def newer_or_equal(self, new: Any, old: Any) -> bool:
        """Return True if ``new`` is greater than or equal to ``old``, such as a later date-time."""
        left, right = self._comparable(new, old)
        return bool(left >= right)

    @property
    def has_declared_cursor(self) -> bool:
        """True if the values belong to a cursor that the stream declares as ``incremental_sync``.

        In this case, values that the cursor does not accept are ignored, and the bookmark never
        decreases.
        """
        return False

    def is_usable(self, value: Any) -> bool:
        """Return True if a value can be a bookmark: it is not None, NaN or infinite."""
        return not is_missing(value)

    def warn_unusable(self, value: Any) -> None:  # noqa: ARG002  for subclasses
        """Log a warning, once per comparator, that a replication key value cannot be a bookmark."""
        self.warn_once(NULL_VALUE, NULL_VALUE)

    def is_plain(self, value: Any) -> bool:  # noqa: ARG002  for subclasses
        """Return True if Python's operators can compare a value without a conversion."""
        return True

    def to_state_value(self, value: Any) -> Any:
        """Convert a replication key value to the JSON value that is stored in the state.

        Bytes become hexadecimal digits, as in records.
        """
        return value.hex() if isinstance(value, bytes) else to_json_compatible(value)

    def parse_bound(self, text: str) -> Any:
        """Parse the start or end of the range that a backfill reads.

        For a numeric replication key, return the number, or None for text that is not a number. For
        other keys, return the text unchanged, or None for text that is not a date-time.
        """
        if self.kind is not ValueKind.NUMBER:
            return None if parse_instant(text) is None else text
        number = parse_number(text)
        if number is None:
            return None
        is_whole = isinstance(number, Decimal) and number == number.to_integral_value()
        return int(number) if is_whole else float(number)

    def minimum(self, first: Any, second: Any) -> Any:
        """Return the smaller of two replication key values; ``first`` if they are equal."""
        return first if self.newer_or_equal(second, first) else second

    def warn_once(self, topic: str, message: str, *args: Any) -> None:
        """Log a warning, unless this comparator has already logged one with the same ``topic``.

        The name of the stream, if known, is put in front of ``message``.
        """
        if topic in self._warned_topics:
            return
        self._warned_topics.add(topic)
        prefix = f"Stream '{self.stream}': " if self.stream else ""
        logger.warning("%s%s", prefix, message % args)

    def _comparable(self, new: Any, old: Any) -> tuple[Any, Any]:
        """Convert two replication key values to types that Python's operators can compare."""
        for read in _READERS[self.kind]:
            left, right = read(new), read(old)
            if left is not None and right is not None:
                return _to_common_type(left, right)
        new_value, old_value = self.to_state_value(new), self.to_state_value(old)
        if not (self.kind is ValueKind.TEXT and isinstance(new, str) and isinstance(old, str)):
            self.warn_once(
                "text",
                "The replication key values %r and %r cannot both be read as %s. "
                "They are compared as text.",
                new_value,
                old_value,
                self.kind.value,
            )
        return str(new_value), str(old_value)


def _to_common_type(left: Any, right: Any) -> tuple[Any, Any]:
    """Return both values. A float is converted to a Decimal if the other value is a Decimal.

    A state stores the Decimal 49.49 as a number, which is read back as the nearest float. Without
    the conversion, the two values would differ.
    """
    if isinstance(left, Decimal) and isinstance(right, float):
        return left, Decimal(repr(right))
    if isinstance(left, float) and isinstance(right, Decimal):
        return Decimal(repr(left)), right
    return left, right


def make_comparator(property_schema: Any, stream: str = "") -> ReplicationKeyComparator:
    """Return the comparator for the values of a property, chosen by the property's JSON Schema.

    Without a ``property_schema``, values are compared as text. ``stream`` is the name of the
    property's stream, for warnings.
    """
    kinds = set(_kinds(property_schema))
    if ValueKind.INSTANT in kinds:
        return ReplicationKeyComparator(ValueKind.INSTANT, stream)
    kind = ValueKind.NUMBER if kinds == {ValueKind.NUMBER} else ValueKind.TEXT
    return ReplicationKeyComparator(kind, stream)


def is_missing(value: Any) -> bool:
    """Return True if a value is None, NaN or infinite. A JSON state stores all of them as null."""
    if isinstance(value, Decimal):
        return not value.is_finite()
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _kinds(schema: Any) -> Iterator[ValueKind]:
    """Yield the kinds of values (date-time, number, text) that a property's schema allows."""
    if not isinstance(schema, Mapping):
        return
    if schema.get("format") in {"date-time", "date"}:
        yield ValueKind.INSTANT
    types = schema.get("type", ())
    is_decimal = schema.get("format") in DECIMAL_FORMATS
    for name in (types,) if isinstance(types, str) else types:
        if name in {"integer", "number"} or (is_decimal and name == "string"):
            yield ValueKind.NUMBER
        elif name != "null":
            yield ValueKind.TEXT
    for keyword in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(keyword, ()):
            yield from _kinds(part)


# Parsing of values

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d{1,3})?", re.ASCII)


def parse_number(value: Any) -> int | float | Decimal | None:
    """Return a number unchanged, and convert the text of a number to a Decimal.

    Return None for NaN, for the infinities, and for all other values.
    """
    if isinstance(value, int):
        return value
    if isinstance(value, (float, Decimal)):
        return None if is_missing(value) else value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return Decimal(value)
    return None


def _number_object(value: Any) -> int | float | Decimal | None:
    """Return a value if it is a number; None for text and all other values."""
    return None if isinstance(value, str) else parse_number(value)


def _datetime_object(value: Any) -> ParsedInstant | None:
    """Return a datetime object as a point in time; None for a value of another type."""
    return parse_instant(value) if isinstance(value, dt.datetime) else None


def _date_object(value: Any) -> ParsedInstant | None:
    """Return the midnight of a date object as a point in time; None for another type."""
    is_day = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    return parse_instant(value) if is_day else None


_READERS = {
    ValueKind.INSTANT: (parse_instant, _number_object),
    ValueKind.NUMBER: (parse_number,),
    ValueKind.TEXT: (_number_object, _datetime_object, _date_object),
}
"""Functions that convert a value for a comparison, in the order in which they are tried.

The first function that supports both values is used. It returns None for unsupported values.
"""
