"""Inference of the JSON Schema of a mapped property from the text of its expression.

As in singer_sdk, the beginning of the text determines the type: ``int(`` means integer. For other
expressions, the property keeps its existing type; a new property is a string.
"""

from __future__ import annotations

from typing import Any

from tap_core import typing as th
from tap_core.types import JsonSchema

__all__ = ["infer_property_schema"]

_BY_PREFIX: tuple[tuple[tuple[str, ...], type[th.JSONTypeHelper[Any]]], ...] = (
    (("float(",), th.DecimalType),
    (("int(",), th.IntegerType),
    (("str(", "json.dumps(", "uuid4("), th.StringType),
    (("bool(", "check_uuid("), th.BooleanType),
    (("datetime.date.", "datetime.date("), th.DateType),
)
_DATE_TIME = ("datetime.datetime.", "datetime.datetime(")


def infer_property_schema(
    name: str, expression: str, existing: JsonSchema | None, record: JsonSchema
) -> JsonSchema:
    """Return a dict with one item: the name of a mapped property and its JSON Schema.

    The schema also allows null.

    Args:
        name: Name of the property.
        expression: Text of the expression that computes the property.
        existing: Schema of the property before the map, or None if it is new.
        record: Schema of the stream, for the expression ``record``.
    """
    return th.Property(name, _infer_type(expression, existing, record)).to_dict()


def _infer_type(
    expression: str, existing: JsonSchema | None, record: JsonSchema
) -> th.JSONTypeHelper[Any]:
    """Infer the type of an expression's values from its text: ``int(a)`` is an integer.

    If the text shows no type, return the type in ``existing``, the property's schema before the
    map. Without ``existing``, return the string type.
    """
    if expression == "record":
        return th.CustomType(record)
    for prefixes, kind in _BY_PREFIX:
        if expression.startswith(prefixes):
            return kind()
    if expression.endswith(".date()"):
        return th.DateType()
    if expression.startswith(_DATE_TIME):
        return th.DateTimeType()
    is_text = expression.startswith("'") and expression.endswith("'")
    return th.CustomType(existing) if existing and not is_text else th.StringType()
