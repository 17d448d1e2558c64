"""Conversion of plain option values in a manifest to the types of their dataclass fields.

The functions are pure. A value from YAML or a template is converted if its meaning does not change,
such as a quoted number for a number field, or a number for a text field. All other values raise an
error.
"""

from __future__ import annotations

from typing import Any, Final

from tap_core.manifest.document import DataText
from tap_core.manifest.literals import parse_literal
from tap_core.manifest.type_hints import FieldType

__all__ = ["coerce_scalar", "describe_expected_type"]

_NAMES: Final = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}
_TRUE: Final = {"true": True, "false": False}
_SHOWN: Final = 60


def coerce_scalar(shape: FieldType, value: Any) -> Any:
    """Convert an option's value to one of the types that the option accepts, such as ``'3'`` to 3.

    ``shape`` describes the accepted types; a list or mapping is converted item by item.

    Raises:
        ValueError: The value cannot be converted.
    """
    if shape.is_any or (value is None and shape.is_optional):
        return value
    if value in shape.literals if _is_hashable(value) else False:
        return value
    if isinstance(value, list) and shape.item is not None:
        return [coerce_scalar(shape.item, one) for one in value]
    if isinstance(value, dict) and shape.value is not None:
        return {str(key): coerce_scalar(shape.value, one) for key, one in value.items()}
    if shape.kind == "value":
        return value
    return _scalar(shape, str(value) if isinstance(value, DataText) else value)


def _scalar(shape: FieldType, value: Any) -> Any:
    wanted = shape.scalars
    if type(value) in wanted:
        return value
    if isinstance(value, str):
        value = _TRUE.get(value.lower(), parse_literal(value, (int, float)))
    if isinstance(value, bool):
        if bool in wanted:
            return value
    elif isinstance(value, int) and int in wanted:
        return value
    elif isinstance(value, (int, float)) and float in wanted:
        return float(value)
    if str in wanted and isinstance(value, (bool, int, float)):
        return str(value)
    raise ValueError(f"{_format_value(value)} is not {describe_expected_type(shape)}.")


def _is_hashable(value: Any) -> bool:
    return not isinstance(value, (list, dict))


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def describe_expected_type(shape: FieldType) -> str:
    """Return a description of the types that an option accepts, such as "an integer".

    It is used in error messages; ``shape`` contains the accepted types.
    """
    parts = [*map(repr, shape.literals), *(_NAMES[one] for one in _NAMES if one in shape.scalars)]
    if shape.kind:
        parts.append("a text" if shape.kind == "text" else "a value")
    parts += [one.__name__ for one in shape.components]
    if shape.item is not None:
        parts.append("a list")
    if shape.value is not None:
        parts.append("a mapping")
    return " or ".join(parts) or "a value that this option accepts"
