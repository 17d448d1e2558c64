"""How many bits and digits a declared number needs.

Rules of the room: declared bounds and ``multipleOf`` are read exactly, through their
text, because a float has already lost what we ask for. A bound that came as a float is
taken for the 64-bit limit next to it.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Mapping
from typing import Any

from target_spark.columns.layout import ColumnOptions
from target_spark.columns.types import MAX_DIGITS, ColumnType, Decimal, Double, Integer, Text

__all__ = [
    "DECIMAL_FORMATS",
    "common_decimal",
    "decimal_of",
    "integer_of",
    "number_of",
    "whole_digits",
]

DECIMAL_FORMATS = frozenset(("x-singer.decimal", "singer.decimal"))
"""Formats of a string (or number) that is an exact number."""

_Schema = Mapping[str, Any]

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

_DIGITS_OF_BITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Whole digits that a decimal needs to take integers over; for 64 bits Delta Lake asks
for one more than there are."""

_FEWEST_WHOLE_DIGITS = 10
"""A step so small that fewer whole digits were left is how databases spell "numeric,
without limit"; it says nothing of the values."""


def integer_of(schema: _Schema, options: ColumnOptions) -> ColumnType:
    """Return 64 bits, or a decimal when the bounds say that there are larger numbers."""
    low, high = _bounds(schema)
    beyond = (low is not None and low < _LOWEST) or (high is not None and high > _HIGHEST)
    if not beyond:
        return Integer()
    return _sized(max(_digits(low), _digits(high)), 0, options)


def number_of(schema: _Schema, options: ColumnOptions) -> ColumnType:
    """Return a decimal where the schema says how many places there are, else a double."""
    if schema.get("format") in DECIMAL_FORMATS:
        return decimal_of(schema, options)
    step = _exact(schema.get("multipleOf"))
    if step is None or step <= 0:
        return options.plain_numbers or Double()
    low, high = _bounds(schema)
    known = low is not None and high is not None
    return _sized(max(_digits(low), _digits(high)) if known else None, _places(step), options)


def decimal_of(schema: _Schema, options: ColumnOptions) -> ColumnType:
    """Return the decimal of ``precision`` and ``scale``, where they are declared."""
    precision, scale = _count(schema.get("precision")), _count(schema.get("scale"))
    if not precision:
        return options.unsized_decimals
    places = scale if scale is not None and scale <= precision else 0
    if precision > MAX_DIGITS:
        return _sized(precision - places, places, options)
    return Decimal(precision, places)


def common_decimal(types: Iterable[Integer | Decimal]) -> Decimal | None:
    """Return the decimal that takes the values of all exactly; None beyond 38 digits."""
    known = list(types)
    scale = max(type_.scale if isinstance(type_, Decimal) else 0 for type_ in known)
    digits = max(whole_digits(type_) for type_ in known) + scale
    return Decimal(digits, scale) if digits <= MAX_DIGITS else None


def whole_digits(type_: Integer | Decimal) -> int:
    """Return the digits before the point that a decimal needs for the type's values."""
    if isinstance(type_, Integer):
        return _DIGITS_OF_BITS[type_.bits]
    return type_.precision - type_.scale


def _sized(whole: int | None, places: int, options: ColumnOptions) -> ColumnType:
    """Return the widest decimal of so many places, or what stands for one too wide."""
    wanted = _FEWEST_WHOLE_DIGITS if whole is None else whole
    if wanted + places <= MAX_DIGITS:
        return Decimal(MAX_DIGITS, places)
    if options.oversized_as_text:
        return Text()
    usual = options.unsized_decimals
    return Decimal(MAX_DIGITS, min(places, usual.scale))


def _bounds(schema: _Schema) -> tuple[decimal.Decimal | None, decimal.Decimal | None]:
    low = _bound(schema, "minimum", "exclusiveMinimum", 1)
    high = _bound(schema, "maximum", "exclusiveMaximum", -1)
    return low, high


def _bound(schema: _Schema, word: str, exclusive: str, inward: int) -> decimal.Decimal | None:
    """Return the tightest of a bound's two spellings; draft 4 says exclusive by a flag."""
    plain, strict = _exact(schema.get(word)), _exact(schema.get(exclusive))
    if plain is not None and schema.get(exclusive) is True:
        plain += inward
    if strict is not None:
        strict += inward
    found = [bound for bound in (plain, strict) if bound is not None]
    return (max(found) if inward > 0 else min(found)) if found else None


def _count(value: Any) -> int | None:
    counts = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if counts else None


def _exact(value: Any) -> decimal.Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    if isinstance(value, float) and value in {float(_LOWEST), float(_HIGHEST)}:
        value = _LOWEST if value < 0 else _HIGHEST
    exact = decimal.Decimal(str(value))
    return exact if exact.is_finite() else None


def _digits(bound: decimal.Decimal | None) -> int:
    return max(bound.adjusted() + 1, 1) if bound else 1


def _places(step: decimal.Decimal) -> int:
    exponent = step.normalize().as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0
