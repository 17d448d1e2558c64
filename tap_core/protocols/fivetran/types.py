"""JSON Schema to the types of Fivetran's columns.

Rules of the room: pure, and without protobuf. Only what a schema says counts, and a value of
the schema always fits the column: what is left open becomes JSON, which holds any value. Null is
no type. References are written out before a schema comes here; one that is left says nothing.

==============================================  ==============================================
a schema says                                   the column is
==============================================  ==============================================
boolean                                         BOOLEAN
integer                                         LONG; SHORT or INT where the bounds are those
                                                of a machine (up to 32,767 or 2,147,483,647):
                                                others are what an author expects, and
                                                nothing holds values to them; DECIMAL where a
                                                bound is beyond 64 bits
number                                          DOUBLE, also of ``format: float``, as sources
                                                that say so send more digits than a float has
number with ``multipleOf``, and any             DECIMAL of so many places; without bounds or
``x-singer.decimal``                            digits of 38 digits in all
text, ``date-time``                             UTC_DATETIME; NAIVE_DATETIME where the schema
                                                says that it has no zone (``airbyte_type``)
text, ``date``                                  NAIVE_DATE
text in base64 (``contentEncoding``)            BINARY
text of XML (``contentMediaType``)              XML
other text, times of day and durations too      STRING
several types                                   their common number type, or STRING where all
                                                are text, else JSON
object, array, or no type at all                JSON
==============================================  ==============================================

A key is never JSON, which many destinations cannot compare: it is STRING then.
Source: Fivetran's Partner SDK, common.proto, ``DataType``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from tap_core.protocols.fivetran.enums import DataType
from tap_core.schema.numeric_bounds import (
    DECIMAL_FORMATS,
    MAX_DIGITS,
    MAX_INT64,
    MIN_INT64,
    MIN_INTEGER_DIGITS,
    get_bounds,
    get_decimal_places,
    get_integer_digits,
    get_step,
    parse_count,
)
from tap_core.schema.type_variants import split_variants

__all__ = ["ColumnType", "to_column_type", "to_key_type"]

_Schema = Mapping[str, Any]


class ColumnType(NamedTuple):
    """What a column holds; ``precision`` and ``scale`` are those of a DECIMAL, else 0."""

    type: DataType
    precision: int = 0
    scale: int = 0


_JSON: Final = ColumnType(DataType.JSON)
_STRING: Final = ColumnType(DataType.STRING)
_UNSIZED: Final = ColumnType(DataType.DECIMAL, MAX_DIGITS, 18)
"""A decimal whose digits nobody declares."""

_MOST_PLACES: Final = MAX_DIGITS - 1

_WHOLE: Final = {DataType.SHORT: (5, -(2**15), 2**15 - 1), DataType.INT: (10, -(2**31), 2**31 - 1)}
"""The digits, and the lowest and highest value, of the narrow whole numbers."""

_DIGITS_OF_LONG: Final = 19
_RANKS: Final = (DataType.SHORT, DataType.INT, DataType.LONG)
_XML: Final = ("application/xml", "text/xml")
_NO_ZONE: Final = "timestamp_without_timezone"


def to_column_type(schema: Any) -> ColumnType:
    """Return the type of the column of a property."""
    variants = list(split_variants(schema))
    found = {_one(kind, variant) for kind, variant in variants}
    if len(found) == 1:
        return found.pop()
    if {kind for kind, _ in variants} == {"string"}:
        return _STRING
    return _common(found) or _JSON


def to_key_type(schema: Any) -> ColumnType:
    """Return the type of the column of a property that identifies a row."""
    found = to_column_type(schema)
    return _STRING if found == _JSON else found


def _common(found: set[ColumnType]) -> ColumnType | None:
    """Return the one type of numbers that takes the values of all, None where there is none."""
    types = {each.type for each in found}
    if not types:
        return None
    if types <= {*_RANKS}:
        return max(found, key=lambda each: _RANKS.index(each.type))
    if types <= {*_RANKS, DataType.DOUBLE}:
        return ColumnType(DataType.DOUBLE)
    return _common_decimal(list(found)) if types <= {*_RANKS, DataType.DECIMAL} else None


def _one(kind: str, schema: _Schema) -> ColumnType:
    """Return the type for values of one JSON type."""
    if kind == "boolean":
        return ColumnType(DataType.BOOLEAN)
    if kind == "integer":
        return _integer(schema)
    if kind == "number":
        return _number(schema)
    return _text(schema) if kind == "string" else _JSON


def _integer(schema: _Schema) -> ColumnType:
    low, high = get_bounds(schema)
    if (low is not None and low < MIN_INT64) or (high is not None and high > MAX_INT64):
        return _sized(max(get_integer_digits(low), get_integer_digits(high)), 0)
    for kind, (_, lowest, highest) in _WHOLE.items():
        if low is not None and low >= lowest and high == highest:
            return ColumnType(kind)
    return ColumnType(DataType.LONG)


def _number(schema: _Schema) -> ColumnType:
    if schema.get("format") in DECIMAL_FORMATS:
        return _declared(schema)
    step = get_step(schema)
    if step is None:
        return ColumnType(DataType.DOUBLE)
    low, high = get_bounds(schema)
    return _sized(_whole_digits(low, high), get_decimal_places(step))


def _whole_digits(low: Decimal | None, high: Decimal | None) -> int | None:
    """Return the digits before the point that bounds leave, None where one is missing."""
    if low is None or high is None:
        return None
    return max(get_integer_digits(low), get_integer_digits(high))


def _text(schema: _Schema) -> ColumnType:
    form = schema.get("format")
    if form == "date-time":
        naive = schema.get("airbyte_type") == _NO_ZONE
        return ColumnType(DataType.NAIVE_DATETIME if naive else DataType.UTC_DATETIME)
    if form == "date":
        return ColumnType(DataType.NAIVE_DATE)
    if isinstance(form, str) and form in DECIMAL_FORMATS:
        return _declared(schema)
    if schema.get("contentEncoding") == "base64":
        return ColumnType(DataType.BINARY)
    return ColumnType(DataType.XML) if schema.get("contentMediaType") in _XML else _STRING


def _declared(schema: _Schema) -> ColumnType:
    """Return the decimal of ``precision`` and ``scale``, where they are declared."""
    precision, scale = parse_count(schema.get("precision")), parse_count(schema.get("scale"))
    if not precision:
        return _UNSIZED
    places = scale if scale is not None and scale <= precision else 0
    if precision > MAX_DIGITS:
        return _sized(precision - places, places)
    return ColumnType(DataType.DECIMAL, precision, min(places, _MOST_PLACES))


def _sized(whole: int | None, places: int) -> ColumnType:
    """Return the widest decimal of so many places, or the usual one where none is wide enough."""
    wanted = MIN_INTEGER_DIGITS if whole is None else whole
    if wanted + places <= MAX_DIGITS:
        return ColumnType(DataType.DECIMAL, MAX_DIGITS, places)
    return ColumnType(DataType.DECIMAL, MAX_DIGITS, min(places, _UNSIZED.scale))


def _common_decimal(types: Sequence[ColumnType]) -> ColumnType:
    """Return the decimal that takes the values of all exactly; JSON beyond 38 digits."""
    scale = max(each.scale for each in types)
    digits = max(map(_whole_digits_of_type, types)) + scale
    return ColumnType(DataType.DECIMAL, digits, scale) if digits <= MAX_DIGITS else _JSON


def _whole_digits_of_type(each: ColumnType) -> int:
    if each.type == DataType.DECIMAL:
        return each.precision - each.scale
    return _WHOLE[each.type][0] if each.type in _WHOLE else _DIGITS_OF_LONG
