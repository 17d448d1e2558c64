"""Predicates on JSON Schemas: object, date-time, nullable and so on.

- Each predicate checks the options of ``anyOf`` first, then ``type``; the date-time
  predicates also check ``allOf`` and ``oneOf``.
- None means that the schema does not declare a type; it is falsy.
- The results are those of singer_sdk, even surprising ones, because plugins rely on them:
  `is_object_type` does not look into the options of ``anyOf``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final, TypeAlias

from tap_core.exceptions import EmptySchemaTypeError, StreamSetupError
from tap_core.types import JsonSchema
from tap_core.typing.values import TypeConformanceLevel as TypeConformanceLevel

__all__ = [
    "JSONSCHEMA_ANNOTATION_SECRET",
    "JSONSCHEMA_ANNOTATION_WRITEONLY",
    "TypeConformanceLevel",
    "append_type",
    "get_datelike_property_type",
    "is_array_type",
    "is_boolean_type",
    "is_date_or_datetime_type",
    "is_datetime_type",
    "is_exclusive_boolean_type",
    "is_integer_type",
    "is_null_type",
    "is_number_type",
    "is_object_type",
    "is_secret_type",
    "is_string_array_type",
    "is_string_type",
    "is_uniform_list",
]

JSONSCHEMA_ANNOTATION_SECRET: Final = "secret"  # noqa: S105 - the keyword, not a secret
JSONSCHEMA_ANNOTATION_WRITEONLY: Final = "writeOnly"

_DATELIKE: Final = frozenset(("date-time", "date", "time"))

_Predicate: TypeAlias = Callable[[JsonSchema], bool]


def append_type(type_dict: JsonSchema, new_type: str) -> JsonSchema:
    """Return a copy of a schema that also allows the type ``new_type``."""
    result = deepcopy(type_dict)
    if "anyOf" in result:
        options = result["anyOf"]
        if not isinstance(options, list):
            result["anyOf"] = [options, new_type]
        elif new_type not in options:
            options.append(new_type)
    elif "oneOf" in result:
        result["oneOf"].append({"type": new_type})
    elif "type" in result:
        names = _names(result["type"])
        if new_type not in names:
            result["type"] = [*names, new_type]
    return result


def is_secret_type(type_dict: JsonSchema) -> bool:
    """Return True if the schema of a setting contains ``secret`` or ``writeOnly``, at any depth."""
    if type_dict.get(JSONSCHEMA_ANNOTATION_WRITEONLY):
        return True
    if type_dict.get(JSONSCHEMA_ANNOTATION_SECRET):
        return True
    return any(map(is_secret_type, type_dict.get("properties", {}).values()))


def is_object_type(property_schema: JsonSchema) -> bool | None:
    """Return True if values may be objects, None if the schema declares no type."""
    if _has_no_type(property_schema):
        return None
    return any("object" in option for option in _options(property_schema))


def is_uniform_list(property_schema: JsonSchema) -> bool:
    """Return True if values may be arrays whose items have one common schema.

    Raises:
        EmptySchemaTypeError: The schema is ``{}``.
        StreamSetupError: The schema does not declare a type; the error is also a ValueError.
    """
    return (
        is_array_type(property_schema)
        and "prefixItems" not in property_schema
        and isinstance(property_schema.get("items"), dict)
    )


def is_boolean_type(property_schema: JsonSchema) -> bool | None:
    """Return True if values may be booleans, None if the schema declares no type."""
    return _allows_type(property_schema, "boolean")


def is_integer_type(property_schema: JsonSchema) -> bool | None:
    """Return True if values may be integers, None if the schema declares no type."""
    return _allows_type(property_schema, "integer")


def is_string_type(property_schema: JsonSchema) -> bool | None:
    """Return True if values may be text, None if the schema declares no type."""
    return _allows_type(property_schema, "string")


def is_null_type(property_schema: JsonSchema) -> bool | None:
    """Return True if values may be null, None if the schema declares no type."""
    return _allows_type(property_schema, "null")


def is_number_type(property_schema: JsonSchema) -> bool | None:
    """Return True if values may have the type ``number``, None if the schema declares no type."""
    return _allows_type(property_schema, "number")


def is_exclusive_boolean_type(property_schema: JsonSchema) -> bool:
    """Return True if values are only booleans, or booleans and null."""
    names = _names(property_schema.get("type", ()))
    return names == ["boolean"] or set(names) == {"boolean", "null"}


def is_array_type(type_dict: JsonSchema) -> bool:
    """Return True if values may be arrays.

    Raises:
        EmptySchemaTypeError: The schema is ``{}``.
        StreamSetupError: The schema does not declare a type; the error is also a ValueError.
    """
    _reject_empty(type_dict)
    return _apply(type_dict, is_array_type, lambda leaf: "array" in leaf["type"])


def is_string_array_type(type_dict: JsonSchema) -> bool:
    """Return True if values may be arrays of text.

    Raises:
        EmptySchemaTypeError: The schema is ``{}``.
        StreamSetupError: The schema does not declare a type; the error is also a ValueError.
    """
    _reject_empty(type_dict)
    return _apply(
        type_dict,
        is_string_array_type,
        lambda leaf: "array" in leaf["type"] and bool(is_string_type(leaf["items"])),
    )


def is_datetime_type(type_dict: JsonSchema) -> bool:
    """Return True if values are date-times.

    For ``anyOf`` and ``oneOf`` one date-time option is sufficient; for ``allOf`` all members must
    be date-times.

    Raises:
        EmptySchemaTypeError: The schema is ``{}``.
        StreamSetupError: The schema does not declare a type; the error is also a ValueError.
    """
    _reject_empty(type_dict)
    return _apply(
        type_dict,
        is_datetime_type,
        lambda leaf: leaf.get("format") == "date-time",
        one_of=True,
    )


def is_date_or_datetime_type(type_dict: JsonSchema) -> bool:
    """Return True if values are dates or date-times.

    For ``anyOf`` and ``oneOf`` one such option is sufficient; for ``allOf`` all members must be
    dates or date-times.

    Raises:
        StreamSetupError: The schema does not declare a type; the error is also a ValueError.
    """
    return _apply(
        type_dict,
        is_date_or_datetime_type,
        lambda leaf: leaf.get("format") in {"date", "date-time"},
        one_of=True,
    )


def get_datelike_property_type(property_schema: JsonSchema) -> str | None:
    """Return ``date-time``, ``date`` or ``time`` for text of that format, else None."""
    for schema in (property_schema, *property_schema.get("anyOf", ())):
        if "string" in schema.get("type", ()) and schema.get("format") in _DATELIKE:
            return str(schema["format"])
    return None


def _names(kind: Any) -> list[str]:
    """Return a value of the keyword ``type``, which is a name or a list of names, as a list."""
    return [kind] if isinstance(kind, str) else list(kind)


def _has_no_type(schema: JsonSchema) -> bool:
    """Return True if a schema has neither ``anyOf`` nor ``type``."""
    return "anyOf" not in schema and "type" not in schema


def _options(schema: JsonSchema) -> list[Any]:
    """Return the options of ``anyOf``.

    Without ``anyOf``, return the ``type`` as the only option.
    """
    options: list[Any] = schema.get("anyOf", [schema.get("type")])
    return options


def _allows_type(schema: JsonSchema, name: str) -> bool | None:
    """Return True if a schema, or one of its ``anyOf`` options, allows the type ``name``.

    Return None if the schema has neither ``anyOf`` nor ``type``.
    """
    if _has_no_type(schema):
        return None
    return any(
        name in (option.get("type", ()) if isinstance(option, Mapping) else option)
        for option in _options(schema)
    )


def _reject_empty(schema: JsonSchema) -> None:
    """Raise EmptySchemaTypeError for the schema ``{}``."""
    if not schema:
        raise EmptySchemaTypeError


def _apply(
    schema: JsonSchema,
    predicate: _Predicate,
    leaf_predicate: _Predicate,
    *,
    one_of: bool = False,
) -> bool:
    """Test a schema or, if it combines other schemas, test those.

    Args:
        schema: The schema.
        predicate: Test for each member of ``anyOf``, ``allOf`` or ``oneOf``.
        leaf_predicate: Test for a schema without these keywords.
        one_of: True to also test the options of ``oneOf``; False to ignore ``oneOf``.

    Raises:
        StreamSetupError: The schema does not declare a type; the error is also a ValueError.
    """
    if "anyOf" in schema:
        return any(map(predicate, schema["anyOf"]))
    if "allOf" in schema:
        return all(map(predicate, schema["allOf"]))
    if one_of and "oneOf" in schema:
        return any(map(predicate, schema["oneOf"]))
    if "type" in schema:
        return leaf_predicate(schema)
    msg = f"The schema does not declare the type of its values: {schema}"
    raise StreamSetupError(msg)
