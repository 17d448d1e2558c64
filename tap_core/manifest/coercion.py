"""Conversion of plain option values in a manifest to the types of their dataclass fields.

The functions are pure. A value from YAML or a template is converted if its meaning does not change,
such as a quoted number for a number field, or a number for a text field. All other values raise an
error.
"""

from __future__ import annotations

from typing import Any, Final

from tap_core.manifest.literals import parse_literal
from tap_core.manifest.nodes import DataText
from tap_core.manifest.type_hints import FieldType
from tap_core.redaction import redact

__all__ = ["coerce_scalar", "describe_expected_type"]

_NAMES: Final = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}
_BOOLEANS: Final = {"true": True, "false": False}
_MAX_SHOWN: Final = 60
"""Maximum number of characters of a value in a message."""


def coerce_scalar(expected: FieldType, value: Any) -> Any:
    """Convert an option's value to one of the types that the option accepts, such as ``'3'`` to 3.

    ``expected`` describes the accepted types; a list or mapping is converted item by item.

    Raises:
        ValueError: The value cannot be converted.
    """
    if expected.is_any or (value is None and expected.is_optional):
        return value
    if not isinstance(value, (list, dict)) and value in expected.literals:
        return value
    if isinstance(value, list) and expected.item is not None:
        return [coerce_scalar(expected.item, item) for item in value]
    if isinstance(value, dict) and expected.value is not None:
        return {str(key): coerce_scalar(expected.value, item) for key, item in value.items()}
    if expected.kind == "value":
        return value
    return _convert_scalar(expected, str(value) if isinstance(value, DataText) else value)


def _convert_scalar(expected: FieldType, value: Any) -> Any:
    accepted = expected.scalars
    if type(value) in accepted:
        return value
    if isinstance(value, str):
        value = _BOOLEANS.get(value.lower(), parse_literal(value, (int, float)))
    if isinstance(value, bool):
        if bool in accepted:
            return value
    elif isinstance(value, int) and int in accepted:
        return value
    elif isinstance(value, (int, float)) and float in accepted:
        return float(value)
    if str in accepted and isinstance(value, (bool, int, float)):
        return str(value)
    raise ValueError(f"{_format_value(value)} is not {describe_expected_type(expected)}.")


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = redact(repr(value))  # before the cut: a part of a secret is not recognized
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def describe_expected_type(expected: FieldType) -> str:
    """Return a description of the types that an option accepts, such as "an integer".

    The description is for error messages. ``expected`` contains the accepted types.
    """
    parts = [
        *map(repr, expected.literals),
        *(_NAMES[scalar] for scalar in _NAMES if scalar in expected.scalars),
    ]
    if expected.kind:
        parts.append("a text" if expected.kind == "text" else "a value")
    parts += [component.__name__ for component in expected.components]
    if expected.item is not None:
        parts.append("a list")
    if expected.value is not None:
        parts.append("a mapping")
    return " or ".join(parts) or "a value that this option accepts"
