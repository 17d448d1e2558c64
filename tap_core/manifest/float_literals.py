"""Conversion of fractions to floats in templates and texts, as in airbyte-cdk.

Records keep a fraction as ``Decimal`` with all of its digits. Where a manifest calculates with a
fraction or writes it as text, it becomes a float if the float has the same digits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

__all__ = ["as_float", "decimals_to_floats"]


def as_float(value: Any) -> Any:
    """Convert a Decimal to a float if that keeps its digits; return other values unchanged."""
    if value.__class__ is not Decimal:
        return value
    found = float(value)
    return found if Decimal(repr(found)) == value else value


def decimals_to_floats(value: Any) -> Any:
    """Return a copy of a nested value with its Decimals as floats, where that keeps the digits."""
    if isinstance(value, dict):
        return {name: decimals_to_floats(one) for name, one in value.items()}
    if isinstance(value, list):
        return [decimals_to_floats(one) for one in value]
    return as_float(value)
