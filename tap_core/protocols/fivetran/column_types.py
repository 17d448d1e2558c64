"""Conversion of JSON Schema types to Fivetran's column types.

The column type accepts every value that the schema allows. A schema without a type becomes JSON,
which accepts any value. The type null is ignored. References must have been inlined before.

==============================================  ==============================================
Schema                                          Column type
==============================================  ==============================================
boolean                                         BOOLEAN
integer                                         LONG; SHORT or INT if the bounds are machine
                                                limits (maximum 32,767 or 2,147,483,647), as
                                                other bounds are expectations that sources
                                                may violate; DECIMAL if a bound is beyond 64 bits
number                                          DOUBLE, also for ``format: float``, as sources
                                                with it send more digits than a float has
number with ``multipleOf``, and any             DECIMAL with that scale; with 38 digits if no
``x-singer.decimal``                            bounds or digits are declared
string, ``date-time``                           UTC_DATETIME; NAIVE_DATETIME if the schema
                                                declares no time zone (``airbyte_type``)
string, ``date``                                NAIVE_DATE
string in base64 (``contentEncoding``)          BINARY
string of XML (``contentMediaType``)            XML
other strings, also times and durations         STRING
several types                                   their common number type, or STRING if all
                                                are strings, else JSON
object, array, or no type                       JSON
==============================================  ==============================================

A key of type JSON becomes STRING, because many destinations cannot compare JSON.
Source: Fivetran's Partner SDK, common.proto, ``DataType``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tap_core.protocols.fivetran.enums import DataType
from tap_core.schema.numeric_bounds import (
    DECIMAL_FORMATS,
    MAX_DIGITS,
    MIN_INTEGER_DIGITS,
    find_values_beyond_int64,
    get_bounds,
    get_decimal_places,
    get_integer_digits,
    get_step,
    parse_count,
)
from tap_core.schema.type_variants import split_variants

__all__ = ["INTEGER_BITS", "ColumnType", "to_column_type", "to_key_type"]

_Schema = Mapping[str, Any]


class ColumnType(NamedTuple):
    """Data type of a Fivetran column. ``precision`` and ``scale`` are 0 except for DECIMAL."""

    type: DataType
    precision: int = 0
    scale: int = 0


_JSON: Final = ColumnType(DataType.JSON)
_STRING: Final = ColumnType(DataType.STRING)
_DEFAULT_DECIMAL: Final = ColumnType(DataType.DECIMAL, MAX_DIGITS, 18)
"""Type of a decimal without declared digits."""

_MAX_SCALE: Final = MAX_DIGITS - 1

INTEGER_BITS: Final = {DataType.SHORT: 16, DataType.INT: 32, DataType.LONG: 64}
"""Size of each integer type in bits."""

_XML: Final = ("application/xml", "text/xml")
_NO_ZONE: Final = "timestamp_without_timezone"


def to_column_type(schema: Any) -> ColumnType:
    """Return the Fivetran column type for a JSON Schema: ``{"type": "boolean"}`` -> BOOLEAN."""
    variants = list(split_variants(schema))
    types = {_get_column_type(kind, variant) for kind, variant in variants}
    if len(types) == 1:
        return types.pop()
    if {kind for kind, _ in variants} == {"string"}:
        return _STRING
    return _find_common_type(types)


def to_key_type(schema: Any) -> ColumnType:
    """Return the Fivetran column type for the JSON Schema of a key property.

    The type is STRING instead of JSON, because many destinations cannot compare JSON.
    """
    kind = to_column_type(schema)
    return _STRING if kind == _JSON else kind


def _find_common_type(types: set[ColumnType]) -> ColumnType:
    """Return the Fivetran column type that can hold the numbers of several column types.

    For example, it is LONG for INT and LONG. Return JSON if decimals would need too many digits, if
    one of the types is not a number type, or if there are no types.
    """
    data_types = {type_.type for type_ in types}
    if not types:
        return _JSON
    if data_types <= {*INTEGER_BITS}:
        return max(types, key=lambda type_: INTEGER_BITS[type_.type])
    if data_types <= {*INTEGER_BITS, DataType.DOUBLE}:
        return ColumnType(DataType.DOUBLE)
    if data_types <= {*INTEGER_BITS, DataType.DECIMAL}:
        return _find_common_decimal(types)
    return _JSON


def _get_column_type(kind: str, schema: _Schema) -> ColumnType:
    """Return the Fivetran column type for a property that allows one JSON type besides null.

    Args:
        kind: The JSON type, such as "string".
        schema: JSON Schema of the property, whose ``format`` or bounds may narrow the type.
    """
    if kind == "boolean":
        return ColumnType(DataType.BOOLEAN)
    if kind == "integer":
        return _get_integer_type(schema)
    if kind == "number":
        return _get_number_type(schema)
    return _get_string_type(schema) if kind == "string" else _JSON


def _get_integer_type(schema: _Schema) -> ColumnType:
    if find_values_beyond_int64(schema):
        return ColumnType(DataType.DECIMAL, MAX_DIGITS)
    low, high = get_bounds(schema)
    for kind in (DataType.SHORT, DataType.INT):
        limit = 1 << (INTEGER_BITS[kind] - 1)
        if low is not None and low >= -limit and high == limit - 1:
            return ColumnType(kind)
    return ColumnType(DataType.LONG)


def _get_number_type(schema: _Schema) -> ColumnType:
    if schema.get("format") in DECIMAL_FORMATS:
        return _get_declared_decimal(schema)
    step = get_step(schema)
    if step is None:
        return ColumnType(DataType.DOUBLE)
    bounds = get_bounds(schema)
    digits = None if None in bounds else max(map(get_integer_digits, bounds))
    return _make_decimal(digits, get_decimal_places(step))


def _get_string_type(schema: _Schema) -> ColumnType:
    form = schema.get("format")
    if form == "date-time":
        naive = schema.get("airbyte_type") == _NO_ZONE
        return ColumnType(DataType.NAIVE_DATETIME if naive else DataType.UTC_DATETIME)
    if form == "date":
        return ColumnType(DataType.NAIVE_DATE)
    if isinstance(form, str) and form in DECIMAL_FORMATS:
        return _get_declared_decimal(schema)
    if schema.get("contentEncoding") == "base64":
        return ColumnType(DataType.BINARY)
    return ColumnType(DataType.XML) if schema.get("contentMediaType") in _XML else _STRING


def _get_declared_decimal(schema: _Schema) -> ColumnType:
    """Return the DECIMAL type with the ``precision`` and ``scale`` that a schema declares.

    Without a declared precision, it is a DECIMAL(38, 18).
    """
    precision, scale = parse_count(schema.get("precision")), parse_count(schema.get("scale"))
    if not precision:
        return _DEFAULT_DECIMAL
    places = scale if scale is not None and scale <= precision else 0
    if precision > MAX_DIGITS:
        return _make_decimal(precision - places, places)
    return ColumnType(DataType.DECIMAL, precision, min(places, _MAX_SCALE))


def _make_decimal(integer_digits: int | None, places: int) -> ColumnType:
    """Return a DECIMAL column type with 38 digits, ``places`` of them after the decimal point.

    ``integer_digits`` is the number of digits needed before the point; None means
    `MIN_INTEGER_DIGITS`. If 38 digits do not suffice for both, the scale is at most 18.
    """
    needed = MIN_INTEGER_DIGITS if integer_digits is None else integer_digits
    if needed + places <= MAX_DIGITS:
        return ColumnType(DataType.DECIMAL, MAX_DIGITS, places)
    return ColumnType(DataType.DECIMAL, MAX_DIGITS, min(places, _DEFAULT_DECIMAL.scale))


def _find_common_decimal(types: set[ColumnType]) -> ColumnType:
    """Return the DECIMAL column type that holds the values of several number types exactly.

    The types are integers and decimals. If they would need more than 38 digits, return JSON.
    """
    scale = max(type_.scale for type_ in types)
    digits = max(map(_count_integer_digits, types)) + scale
    return ColumnType(DataType.DECIMAL, digits, scale) if digits <= MAX_DIGITS else _JSON


def _count_integer_digits(kind: ColumnType) -> int:
    """Return the maximum number of digits before the decimal point in a ``kind`` column."""
    if kind.type == DataType.DECIMAL:
        return kind.precision - kind.scale
    return len(str(1 << (INTEGER_BITS[kind.type] - 1)))
