"""Bounds, digits and decimal places that a JSON Schema declares for a number.

A float such as 0.1 is converted to the decimal of its text, ``0.1``, and not to its exact binary
value. A float bound equal to the float of a 64-bit limit is treated as that limit.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "DECIMAL_FORMATS",
    "MAX_DIGITS",
    "MAX_INT64",
    "MIN_INT64",
    "MIN_INTEGER_DIGITS",
    "find_values_beyond_int64",
    "get_bounds",
    "get_decimal_places",
    "get_integer_digits",
    "get_step",
    "parse_count",
]

DECIMAL_FORMATS: Final = frozenset(("x-singer.decimal", "singer.decimal"))
"""Values of ``format`` for a string (or number) that holds an exact decimal."""

MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1
"""Largest signed 64-bit integer; `MIN_INT64` is the smallest."""

MAX_DIGITS: Final = 38
"""Maximum precision of decimal columns in Spark and table formats, in digits."""

MIN_INTEGER_DIGITS: Final = 10
"""Minimum number of digits before the decimal point.

A ``multipleOf`` that leaves fewer digits is ignored: taps declare a very small one for a numeric
type without limits.
"""

_Schema = Mapping[str, Any]

_CONTEXT: Final = decimal.Context(prec=100)
"""Context for sums: exact for more digits than any column type has, unlike the default of 28."""


def get_bounds(schema: _Schema) -> tuple[decimal.Decimal | None, decimal.Decimal | None]:
    """Return the lowest and highest value that a number's schema allows, each None if not declared.

    An exclusive bound is moved by 1, as for integers: ``exclusiveMinimum: 0`` becomes 1.
    """
    low = _get_bound(schema, "minimum", "exclusiveMinimum", 1)
    high = _get_bound(schema, "maximum", "exclusiveMaximum", -1)
    return low, high


def find_values_beyond_int64(schema: _Schema) -> list[decimal.Decimal]:
    """Return the bounds and the values of ``const`` and ``enum`` that exceed 64-bit integers.

    If the list is not empty, a property of type ``integer`` needs a wider type.
    """
    values = schema.get("enum")
    declared = [*get_bounds(schema), _to_decimal(schema.get("const"))]
    declared += map(_to_decimal, values) if isinstance(values, list) else ()
    return [
        value for value in declared if value is not None and not MIN_INT64 <= value <= MAX_INT64
    ]


def get_step(schema: _Schema) -> decimal.Decimal | None:
    """Return the value of ``multipleOf`` in a schema, or None if it is missing or not positive."""
    step = _to_decimal(schema.get("multipleOf"))
    return step if step is not None and step > 0 else None


def get_decimal_places(step: decimal.Decimal) -> int:
    """Return the number of decimal places that multiples of ``step`` have: 2 for ``0.01``."""
    exponent = step.normalize().as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def get_integer_digits(bound: decimal.Decimal | None) -> int:
    """Return the number of digits of a bound before the decimal point: 3 for 999.5, 1 for None."""
    return max(bound.adjusted() + 1, 1) if bound else 1


def parse_count(value: Any) -> int | None:
    """Return the value of a schema keyword that is a count, such as ``precision``.

    Return None if ``value`` is not an integer or is negative.
    """
    counts = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if counts else None


def _get_bound(
    schema: _Schema, keyword: str, exclusive: str, inward: int
) -> decimal.Decimal | None:
    """Return the lower or upper bound of a schema, or None if it has no such bound.

    Of an inclusive and an exclusive bound, the tighter one is returned, as an inclusive bound. A
    boolean ``exclusiveMinimum``, as in JSON Schema draft 4, makes ``minimum`` exclusive.

    Args:
        schema: Schema with the bounds.
        keyword: Keyword of the inclusive bound, such as ``minimum``.
        exclusive: Keyword of the exclusive bound, such as ``exclusiveMinimum``.
        inward: Number to add to an exclusive bound: 1 for a lower bound, -1 for an upper bound.
    """
    plain, strict = _to_decimal(schema.get(keyword)), _to_decimal(schema.get(exclusive))
    if plain is not None and schema.get(exclusive) is True:
        plain = _CONTEXT.add(plain, inward)
    if strict is not None:
        strict = _CONTEXT.add(strict, inward)
    bounds = [bound for bound in (plain, strict) if bound is not None]
    return (max(bounds) if inward > 0 else min(bounds)) if bounds else None


def _to_decimal(value: Any) -> decimal.Decimal | None:
    """Return a number as the Decimal of its text; None for NaN, infinity or another type."""
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    if isinstance(value, float) and value in {float(MIN_INT64), float(MAX_INT64)}:
        value = MIN_INT64 if value < 0 else MAX_INT64
    exact = decimal.Decimal(str(value) if isinstance(value, float) else value)
    return exact if exact.is_finite() else None
