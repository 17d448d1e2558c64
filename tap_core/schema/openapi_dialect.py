"""Conversion of OpenAPI keywords to JSON Schema keywords.

The functions convert one schema without its subschemas, in place; the caller must pass a copy.
Schemas that are already JSON Schema stay unchanged.
Source: OpenAPI 2.0, 3.0.4 and 3.1.1, "Schema Object"; JSON Schema 2020-12, Validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tap_core.schema.type_variants import get_types
from tap_core.types import JsonSchema

__all__ = ["accepts_null", "add_null", "convert_keywords", "remove_null"]

_NULL: Final = "null"
_CHOICES: Final = ("oneOf", "anyOf")


def convert_keywords(schema: JsonSchema) -> None:
    """Convert the OpenAPI keywords of a schema to JSON Schema keywords, in place.

    ``x-nullable`` becomes ``nullable``, which the caller must convert after the subschemas.
    """
    _normalize_nullable(schema)
    _normalize_type(schema)
    _normalize_bounds(schema)
    _keep_lists_only(schema)


def _normalize_nullable(schema: JsonSchema) -> None:
    """Rename ``x-nullable`` to ``nullable``, in place; an existing ``nullable`` is kept."""
    vendor = schema.pop("x-nullable", None)
    if vendor is not None:
        schema.setdefault("nullable", vendor)


def _normalize_type(schema: JsonSchema) -> None:
    """Complete or correct the ``type`` of a schema, in place.

    A missing type is inferred from ``properties``, ``items`` or ``enum``. The type ``file`` becomes
    ``string`` with the format ``binary``.
    """
    if schema.get("type") == "file":
        schema["type"] = "string"
        schema.setdefault("format", "binary")
    elif "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        # YAML reads an unquoted null as None.
        named = list(dict.fromkeys(kind or _NULL for kind in kinds))
        schema["type"] = named if isinstance(schema["type"], list) else named[0]
        if not named:
            del schema["type"]
    elif isinstance(schema.get("properties"), Mapping):
        schema["type"] = "object"
    elif isinstance(schema.get("items"), Mapping):
        schema["type"] = "array"
    elif isinstance(schema.get("enum"), list):
        _infer_enum_type(schema)


def _infer_enum_type(schema: JsonSchema) -> None:
    """Set the ``type`` of a schema to the types of the values in its ``enum``, in place."""
    kinds = list(dict.fromkeys(_get_type(value) for value in schema["enum"]))
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    if kinds:
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds


_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}


def _get_type(value: Any) -> str:
    return _NULL if value is None else _TYPES.get(type(value), "object")


def _normalize_bounds(schema: JsonSchema) -> None:
    """Convert the exclusive bounds of OpenAPI 3.0 to those of JSON Schema, in place.

    Example: ``{"minimum": 0, "exclusiveMinimum": True}`` becomes ``{"exclusiveMinimum": 0}``.
    """
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(flag), bool):
            exclusive = schema.pop(flag)
            if exclusive and bound in schema:
                schema[flag] = schema.pop(bound)


def _keep_lists_only(schema: JsonSchema) -> None:
    """Remove ``required`` and ``examples`` if they are not lists, such as ``required: true``.

    Duplicates in ``required`` are removed too.
    """
    for keyword in ("required", "examples"):
        if keyword in schema and not isinstance(schema[keyword], list):
            del schema[keyword]
    if "required" in schema:
        schema["required"] = list(dict.fromkeys(schema["required"]))


# Null


def accepts_null(schema: Any) -> bool:
    """Return True if ``type``, ``const``, ``oneOf`` and ``anyOf`` of a schema all allow null.

    A keyword that the schema does not have is ignored. Other keywords are not checked.
    """
    if not isinstance(schema, Mapping):
        return bool(schema)
    types = get_types(schema)
    if types and _NULL not in types:
        return False
    if "const" in schema:
        return schema["const"] is None
    return all(any(map(accepts_null, schema[keyword])) for keyword in _CHOICES if keyword in schema)


def add_null(schema: JsonSchema) -> None:
    """Make a schema allow null, in place: add null to ``type``, ``enum``, ``oneOf`` and ``anyOf``.

    A ``const`` becomes an ``enum`` of its value and null.
    """
    types = get_types(schema)
    if types and _NULL not in types:
        schema["type"] = [*types, _NULL]
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if isinstance(values := schema.get("enum"), list) and None not in values:
        schema["enum"] = [*values, None]
    for keyword in _CHOICES:
        if keyword in schema and not any(map(accepts_null, schema[keyword])):
            schema[keyword] = [*schema[keyword], {"type": _NULL}]


def remove_null(schema: Any) -> Any:
    """Return a copy of a schema with null removed from its ``type``; None if it has only null.

    A schema without null in its ``type`` is returned unchanged.
    """
    if not isinstance(schema, Mapping) or _NULL not in get_types(schema):
        return schema
    types = [kind for kind in get_types(schema) if kind != _NULL]
    return {**schema, "type": types[0] if len(types) == 1 else types} if types else None
