"""Comparison of the types of record values with the schema of the stream.

An object schema without properties, such as ``{"type": "object"}``, allows any content, so the
content is not compared. A number without a fraction is treated as an integer. Source: JSON Schema
Draft 7, section 6.1.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

__all__ = ["PropertyComparison", "compare_schema"]

_ANY: Final = "any"
_CHOICES: Final = ("allOf", "anyOf", "oneOf")
_NAMES: Final[tuple[tuple[type[Any], str], ...]] = (
    (type(None), "null"),
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (Mapping, "object"),
    (list, "array"),
)


@dataclass(frozen=True)
class PropertyComparison:
    """JSON types of one property, both in the records and in the schema."""

    path: str
    """Path of the property in a record, such as ``address.city`` or ``items[].id``."""
    found: tuple[str, ...]
    """JSON types of the values; empty if no record has the property."""
    declared: tuple[str, ...] | None
    """JSON types in the schema: ``any`` if it sets no type, None if it lacks the property."""

    @property
    def problem(self) -> str:
        """Difference of records and schema, such as ``not in the schema``; "" if they agree."""
        if self.declared is None:
            return "not in the schema"
        if not self.found:
            return "never seen"
        allowed = {*self.declared, *(["integer"] if "number" in self.declared else [])}
        return "" if _ANY in allowed or allowed.issuperset(self.found) else "other type"


def compare_schema(
    records: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]
) -> list[PropertyComparison]:
    """Compare the types of properties in records with those in the schema.

    Return a comparison for each property; those in the schema come first. The records contain JSON
    values, with fractions as Decimal.
    """
    return list(_compare_objects(records, schema, ""))


def _compare_objects(
    values: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], prefix: str
) -> Iterator[PropertyComparison]:
    declared = _collect_properties(schema)
    items_by_name: dict[str, list[Any]] = {name: [] for name in declared}
    for value in values:
        for name, item in value.items():
            items_by_name.setdefault(name, []).append(item)
    for name, items in items_by_name.items():
        yield from _compare_values(f"{prefix}{name}", items, declared.get(name))


def _compare_values(
    path: str, values: Sequence[Any], schema: Mapping[str, Any] | None
) -> Iterator[PropertyComparison]:
    types = tuple(sorted({_name_type(value) for value in values}))
    yield PropertyComparison(path, types, None if schema is None else _collect_types(schema))
    if schema is None:
        return
    objects = [value for value in values if isinstance(value, Mapping)]
    if objects and _collect_properties(schema):
        yield from _compare_objects(objects, schema, f"{path}.")
    lists = [value for value in values if isinstance(value, list)]
    variants = _iterate_variants(schema)
    item_schema = next((variant["items"] for variant in variants if "items" in variant), None)
    if isinstance(item_schema, Mapping) and any(lists):
        items = [item for items in lists for item in items]
        yield from _compare_values(f"{path}[]", items, item_schema)


def _name_type(value: Any) -> str:
    """Return the JSON type of a value, such as ``integer`` or ``array``."""
    if isinstance(value, Decimal):
        return "integer" if value == value.to_integral_value() else "number"
    return next(name for kind, name in _NAMES if isinstance(value, kind))


def _iterate_variants(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and, recursively, its subschemas in ``allOf``, ``anyOf`` and ``oneOf``."""
    yield schema
    for keyword in _CHOICES:
        for subschema in schema.get(keyword) or ():
            if isinstance(subschema, Mapping):
                yield from _iterate_variants(subschema)


def _collect_properties(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the properties that an object schema and its subschemas (``anyOf`` etc.) declare."""
    declared: dict[str, Mapping[str, Any]] = {}
    for variant in _iterate_variants(schema):
        for name, subschema in (variant.get("properties") or {}).items():
            declared.setdefault(name, subschema if isinstance(subschema, Mapping) else {})
    return declared


def _collect_types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the JSON types that a schema allows, or ``("any",)`` if it does not restrict them."""
    declared = schema.get("type")
    if declared:
        return (declared,) if isinstance(declared, str) else tuple(map(str, declared))
    subschemas = [subschema for keyword in _CHOICES for subschema in schema.get(keyword) or ()]
    types = [_collect_types(each) if isinstance(each, Mapping) else (_ANY,) for each in subschemas]
    if not types or "$ref" in schema:
        return (_ANY,)
    if "allOf" in schema:  # subschemas without a type do not add a restriction
        types = [names for names in types if names != (_ANY,)] or [(_ANY,)]
    return tuple(dict.fromkeys(name for names in types for name in names))
