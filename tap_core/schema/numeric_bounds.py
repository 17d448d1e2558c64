"""What a JSON Schema says of the size of its numbers: bounds, digits and places.

Rules of the room: pure. Declared bounds and ``multipleOf`` are read exactly, through their
text, because a float has already lost what we ask for. A bound that came as a float is taken
for the 64-bit limit next to it.
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
    "get_bounds",
    "get_decimal_places",
    "get_integer_digits",
    "get_step",
    "parse_count",
]

DECIMAL_FORMATS: Final = frozenset(("x-singer.decimal", "singer.decimal"))
"""Formats of a string (or number) that is an exact number."""

MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1
"""The limits of 64 bits."""

MAX_DIGITS: Final = 38
"""The digits of the widest decimal that tables have."""

MIN_INTEGER_DIGITS: Final = 10
"""A step so small that fewer whole digits were left is how databases spell "numeric,
without limit"; it says nothing of the values."""

_Schema = Mapping[str, Any]


def get_bounds(schema: _Schema) -> tuple[decimal.Decimal | None, decimal.Decimal | None]:
    """Return the lowest and the highest value that a schema declares, None for none."""
    low = _bound(schema, "minimum", "exclusiveMinimum", 1)
    high = _bound(schema, "maximum", "exclusiveMaximum", -1)
    return low, high


def get_step(schema: _Schema) -> decimal.Decimal | None:
    """Return the ``multipleOf`` of a schema, None where it has none that is above zero."""
    step = _exact(schema.get("multipleOf"))
    return step if step is not None and step > 0 else None


def get_decimal_places(step: decimal.Decimal) -> int:
    """Return the places after the point of a step."""
    exponent = step.normalize().as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def get_integer_digits(bound: decimal.Decimal | None) -> int:
    """Return the digits before the point that a bound has, one at least."""
    return max(bound.adjusted() + 1, 1) if bound else 1


def parse_count(value: Any) -> int | None:
    """Return a declared number of digits, None where it is no such number."""
    counts = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if counts else None


def _bound(schema: _Schema, word: str, exclusive: str, inward: int) -> decimal.Decimal | None:
    """Return the tightest of a bound's two spellings; draft 4 says exclusive by a flag."""
    plain, strict = _exact(schema.get(word)), _exact(schema.get(exclusive))
    if plain is not None and schema.get(exclusive) is True:
        plain += inward
    if strict is not None:
        strict += inward
    found = [bound for bound in (plain, strict) if bound is not None]
    return (max(found) if inward > 0 else min(found)) if found else None


def _exact(value: Any) -> decimal.Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    if isinstance(value, float) and value in {float(MIN_INT64), float(MAX_INT64)}:
        value = MIN_INT64 if value < 0 else MAX_INT64
    exact = decimal.Decimal(str(value))
    return exact if exact.is_finite() else None
