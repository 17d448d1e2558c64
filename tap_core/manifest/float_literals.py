"""Fractions for templates and texts: floats, as airbyte-cdk has them.

Rules of the room: pure. Records keep a fraction as ``Decimal``, with all its digits. Where a
manifest reckons with one or writes it as text it is a float, if that is the same number.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

__all__ = ["as_float", "decimals_to_floats"]


def as_float(value: Any) -> Any:
    """Return a fraction as a float, unless that would be another number; all else as it is."""
    if value.__class__ is not Decimal:
        return value
    found = float(value)
    return found if Decimal(repr(found)) == value else value


def decimals_to_floats(value: Any) -> Any:
    """Return a value with all fractions in it as floats; a copy of what holds others."""
    if isinstance(value, dict):
        return {name: decimals_to_floats(one) for name, one in value.items()}
    if isinstance(value, list):
        return [decimals_to_floats(one) for one in value]
    return as_float(value)
