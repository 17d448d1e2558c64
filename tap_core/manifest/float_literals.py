"""Fractions as floats in templates and texts, as in airbyte-cdk.

The functions are pure. Records keep a fraction as ``Decimal`` with all its digits. Where a
manifest calculates with a fraction or writes it as text, it is a float if the float is equal.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

__all__ = ["as_float", "decimals_to_floats"]


def as_float(value: Any) -> Any:
    """Return a Decimal as a float if the float is equal; return other values unchanged."""
    if value.__class__ is not Decimal:
        return value
    found = float(value)
    return found if Decimal(repr(found)) == value else value


def decimals_to_floats(value: Any) -> Any:
    """Return a value with all its Decimals as floats; containers are copied."""
    if isinstance(value, dict):
        return {name: decimals_to_floats(one) for name, one in value.items()}
    if isinstance(value, list):
        return [decimals_to_floats(one) for one in value]
    return as_float(value)
