"""Column types with enough bits and digits for the numbers that a JSON Schema allows.

`tap_core.schema.numeric_bounds` reads the bounds from a schema; this module returns the type that
holds all numbers within them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tap_core.schema.numeric_bounds import (
    DECIMAL_FORMATS,
    MIN_INTEGER_DIGITS,
    find_values_beyond_int64,
    get_bounds,
    get_decimal_places,
    get_integer_digits,
    get_step,
    parse_count,
)
from target_spark.columns.table_schema import ColumnOptions
from target_spark.columns.types import MAX_DIGITS, ColumnType, Decimal, Double, Integer, Text

__all__ = [
    "common_decimal",
    "count_integer_digits",
    "to_decimal_type",
    "to_integer_type",
    "to_number_type",
]

_Schema = Mapping[str, Any]

_DIGITS_OF_BITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Integer digits of the decimal type that replaces an integer type, by the bits of the integer.

64-bit integers have at most 19 digits, but Delta Lake requires 20 for their replacement.
"""


def to_integer_type(schema: _Schema, options: ColumnOptions) -> ColumnType:
    """Return the column type of a JSON ``integer``, by default a 64-bit integer.

    If a bound or a declared value exceeds 64 bits, the type is ``decimal(38,0)``, or the
    type that the options configure for larger numbers.
    """
    beyond_int64 = find_values_beyond_int64(schema)
    if not beyond_int64:
        return Integer()
    return _widest_decimal(max(map(get_integer_digits, beyond_int64)), 0, options)


def to_number_type(schema: _Schema, options: ColumnOptions) -> ColumnType:
    """Return the column type of a JSON ``number``.

    The type is a decimal if the schema has ``multipleOf`` or a decimal ``format`` such as
    ``x-singer.decimal``. Otherwise it is the type that the options configure, by default a double.
    """
    if schema.get("format") in DECIMAL_FORMATS:
        return to_decimal_type(schema, options)
    step = get_step(schema)
    if step is None:
        return options.plain_numbers or Double()
    low, high = get_bounds(schema)
    is_bounded = low is not None and high is not None
    return _widest_decimal(
        max(get_integer_digits(low), get_integer_digits(high)) if is_bounded else None,
        get_decimal_places(step),
        options,
    )


def to_decimal_type(schema: _Schema, options: ColumnOptions) -> ColumnType:
    """Return the decimal type that a schema declares by ``precision`` and ``scale``.

    If ``precision`` is missing or above 38 (Spark's maximum), the options determine the type: see
    `ColumnOptions.unsized_decimals` and `ColumnOptions.oversized_as_text`.
    """
    precision, scale = parse_count(schema.get("precision")), parse_count(schema.get("scale"))
    if not precision:
        return options.unsized_decimals
    scale = scale if scale is not None and scale <= precision else 0
    if precision > MAX_DIGITS:
        return _widest_decimal(precision - scale, scale, options)
    return Decimal(precision, scale)


def common_decimal(types: Iterable[Integer | Decimal]) -> Decimal | None:
    """Return the smallest decimal type that can store the values of all given types exactly.

    For ``decimal(5,2)`` and ``decimal(8,0)`` it is ``decimal(10,2)``. Return None if the type would
    need more than 38 digits.
    """
    operands = list(types)
    scale = max(type_.scale if isinstance(type_, Decimal) else 0 for type_ in operands)
    digits = max(count_integer_digits(type_) for type_ in operands) + scale
    return Decimal(digits, scale) if digits <= MAX_DIGITS else None


def count_integer_digits(type_: Integer | Decimal) -> int:
    """Return the maximum number of digits before the decimal point in values of a type.

    For ``decimal(10,2)`` it is 8, for a 32-bit integer 10.
    """
    if isinstance(type_, Integer):
        return _DIGITS_OF_BITS[type_.bits]
    return type_.precision - type_.scale


def _widest_decimal(integer_digits: int | None, scale: int, options: ColumnOptions) -> ColumnType:
    """Return a decimal type with 38 digits, including ``scale`` digits after the decimal point.

    If the digits before the point do not fit, return the type that the options configure for
    numbers of more than 38 digits: text, or a decimal.

    ``integer_digits`` is the number of digits needed before the point; None if unknown.
    """
    needed = MIN_INTEGER_DIGITS if integer_digits is None else integer_digits
    if needed + scale <= MAX_DIGITS:
        return Decimal(MAX_DIGITS, scale)
    if options.oversized_as_text:
        return Text()
    fallback = options.unsized_decimals
    return Decimal(MAX_DIGITS, min(scale, fallback.scale))
