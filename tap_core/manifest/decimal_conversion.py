"""Conversion of ``Decimal`` values to floats for templates and texts, as in airbyte-cdk.

Records store a number with a fraction as ``Decimal``, with all of its digits. If a template
calculates with the number or a text contains it, it becomes a float, unless digits would be lost.
Inside an object or a list it always becomes a float, because the rendered text of the object is
parsed again.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

__all__ = ["as_float", "convert_each", "decimals_to_floats"]


def as_float(value: Any) -> Any:
    """Convert a Decimal to a float if no digits are lost; return any other value unchanged."""
    if value.__class__ is not Decimal:
        return value
    number = float(value)
    return number if Decimal(repr(number)) == value else value


def decimals_to_floats(value: Any) -> Any:
    """Return a copy of a dict, list or tuple with each Decimal in it as a float.

    Any other value is converted by `as_float`.
    """
    return _convert_nested(value) if isinstance(value, (dict, list, tuple)) else as_float(value)


def convert_each(values: Any) -> Any:
    """Return a dict or tuple with each value converted by `decimals_to_floats`."""
    if isinstance(values, dict):
        return {name: decimals_to_floats(value) for name, value in values.items()}
    return tuple(map(decimals_to_floats, values))


def _convert_nested(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _convert_nested(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_convert_nested(item) for item in value]
    if isinstance(value, tuple):
        make = getattr(value, "_make", tuple)  # of a named tuple, such as a group of `groupby`
        return make(map(_convert_nested, value))
    return float(value) if value.__class__ is Decimal else value
