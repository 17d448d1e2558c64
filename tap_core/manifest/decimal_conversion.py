"""Conversion of ``Decimal`` values to floats for templates and texts, as in airbyte-cdk.

Records store a number with a fraction as ``Decimal``, with all of its digits. If a template
calculates with the number or a text contains it, it becomes a float, unless digits would be lost.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

__all__ = ["as_float", "decimals_to_floats"]


def as_float(value: Any) -> Any:
    """Convert a Decimal to a float if no digits are lost; return any other value unchanged."""
    if value.__class__ is not Decimal:
        return value
    number = float(value)
    return number if Decimal(repr(number)) == value else value


def decimals_to_floats(value: Any) -> Any:
    """Return a copy of a nested value with each Decimal as a float, unless digits would be lost."""
    if isinstance(value, dict):
        return {name: decimals_to_floats(one) for name, one in value.items()}
    if isinstance(value, list):
        return [decimals_to_floats(one) for one in value]
    return as_float(value)
