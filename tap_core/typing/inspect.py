"""Functions that test the type in a JSON Schema, such as `is_object_type`.

They test the keyword ``anyOf``, or ``type`` if a schema has no ``anyOf``. Some also test ``allOf``
and ``oneOf``. The results are those of singer_sdk, because plugins rely on them. For example,
`is_object_type` does not look into the schemas in ``anyOf``.
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
    "copy_schema",
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
"""JSON Schema keyword that marks a property as secret."""
JSONSCHEMA_ANNOTATION_WRITEONLY: Final = "writeOnly"
"""JSON Schema keyword for values that are never shown. It also marks a property as secret."""

_DATELIKE: Final = frozenset(("date-time", "date", "time"))

_Predicate: TypeAlias = Callable[[JsonSchema], bool]


def append_type(type_dict: JsonSchema, new_type: str) -> JsonSchema:
    """Return a copy of a schema that also allows the type ``new_type``, such as ``null``.

    A schema without ``anyOf``, ``oneOf`` and ``type`` allows all types and stays unchanged. To
    ``anyOf`` or ``oneOf``, a schema of the type is appended, where singer_sdk appends the bare name
    of the type. If an option allows the type, none is appended: with ``oneOf``, a value must match
    only one option.
    """
    result: JsonSchema = copy_schema(type_dict)
    keyword = next((word for word in ("anyOf", "oneOf") if word in result), None)
    if keyword is not None:
        options = result[keyword] if isinstance(result[keyword], list) else [result[keyword]]
        types = [option.get("type") or () for option in options if isinstance(option, dict)]
        if new_type not in options and not any(new_type in _list_types(kind) for kind in types):
            options.append({"type": new_type})
        result[keyword] = options
    elif "type" in result:
        names = _list_types(result["type"])
        if new_type not in names:
            result["type"] = [*names, new_type]
    return result


def copy_schema(node: Any) -> Any:
    """Return a deep copy of a schema or of a value in it; dicts and lists are copied."""
    if type(node) is dict:
        return {name: copy_schema(value) for name, value in node.items()}
    if type(node) is list:
        return list(map(copy_schema, node))
    return node if type(node) is str else deepcopy(node)


def is_secret_type(type_dict: JsonSchema) -> bool:
    """Return True if a schema or a nested property has the keyword ``secret`` or ``writeOnly``."""
    if type_dict.get(JSONSCHEMA_ANNOTATION_WRITEONLY):
        return True
    if type_dict.get(JSONSCHEMA_ANNOTATION_SECRET):
        return True
    return any(map(is_secret_type, type_dict.get("properties", {}).values()))


def is_object_type(property_schema: JsonSchema) -> bool | None:
    """Return True if a schema allows objects, None if it declares no type."""
    if _has_no_type(property_schema):
        return None
    return any("object" in option for option in _list_choices(property_schema))


def is_uniform_list(property_schema: JsonSchema) -> bool:
    """Return True if a schema allows arrays, with one schema for all items.

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
    """Return True if a schema allows booleans, None if it declares no type."""
    return _allows_type(property_schema, "boolean")


def is_integer_type(property_schema: JsonSchema) -> bool | None:
    """Return True if a schema allows the type ``integer``, None if it declares no type."""
    return _allows_type(property_schema, "integer")


def is_string_type(property_schema: JsonSchema) -> bool | None:
    """Return True if a schema allows strings, None if it declares no type."""
    return _allows_type(property_schema, "string")


def is_null_type(property_schema: JsonSchema) -> bool | None:
    """Return True if a schema allows null, None if it declares no type."""
    return _allows_type(property_schema, "null")


def is_number_type(property_schema: JsonSchema) -> bool | None:
    """Return True if a schema allows the type ``number``, None if it declares no type."""
    return _allows_type(property_schema, "number")


def is_exclusive_boolean_type(property_schema: JsonSchema) -> bool:
    """Return True if a schema allows booleans (and perhaps null), but no other type."""
    names = _list_types(property_schema.get("type", ()))
    return names == ["boolean"] or set(names) == {"boolean", "null"}


def is_array_type(type_dict: JsonSchema) -> bool:
    """Return True if a schema allows arrays.

    Raises:
        EmptySchemaTypeError: The schema is ``{}``.
        StreamSetupError: The schema does not declare a type; the error is also a ValueError.
    """
    _reject_empty(type_dict)
    return _apply(type_dict, is_array_type, lambda leaf: "array" in (leaf["type"] or ()))


def is_string_array_type(type_dict: JsonSchema) -> bool:
    """Return True if a schema allows arrays whose items are strings.

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
    """Return True if a schema has the format ``date-time``.

    In ``anyOf`` and ``oneOf``, one schema with this format is sufficient; in ``allOf``, all must
    have it.

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
    """Return True if a schema has the format ``date`` or ``date-time``.

    In ``anyOf`` and ``oneOf``, one schema with such a format is sufficient; in ``allOf``, all must
    have one.

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
    """Return the format of a string schema: date-time, date, time, or None for any other."""
    for schema in (property_schema, *property_schema.get("anyOf", ())):
        if "string" in schema.get("type", ()) and schema.get("format") in _DATELIKE:
            return str(schema["format"])
    return None


def _list_types(kind: Any) -> list[str]:
    """Return the value of the keyword ``type`` as a list: ``"string"`` becomes ``["string"]``."""
    return [kind] if isinstance(kind, str) else list(kind)


def _has_no_type(schema: JsonSchema) -> bool:
    """Return True if a schema has neither ``anyOf`` nor ``type``."""
    return "anyOf" not in schema and "type" not in schema


def _list_choices(schema: JsonSchema) -> list[Any]:
    """Return the list ``anyOf`` of a schema or, without it, a list with only the ``type``.

    The schemas ``true`` and ``false`` are left out, as are options and types that are null.
    """
    options: list[Any] = schema.get("anyOf", [schema.get("type")])
    return [option for option in options if not isinstance(option, bool | None)]


def _allows_type(schema: JsonSchema, name: str) -> bool | None:
    """Return True if a schema, or a schema in its ``anyOf``, allows the type ``name``.

    Return None if the schema has neither ``anyOf`` nor ``type``.
    """
    if _has_no_type(schema):
        return None
    return any(
        name in (option.get("type") or () if isinstance(option, Mapping) else option)
        for option in _list_choices(schema)
    )


def _reject_empty(schema: Any) -> None:
    """Raise EmptySchemaTypeError for a schema without keywords: ``{}``, ``true`` or ``false``."""
    if not schema or isinstance(schema, bool):
        raise EmptySchemaTypeError


def _apply(
    schema: JsonSchema,
    predicate: _Predicate,
    leaf_predicate: _Predicate,
    *,
    one_of: bool = False,
) -> bool:
    """Return True if a schema passes a test; apply it to the parts of a combined schema.

    Of the schemas in ``anyOf``, one must pass the test; of those in ``allOf``, all must.

    Args:
        schema: The schema.
        predicate: Test for each schema in ``anyOf`` or ``allOf``.
        leaf_predicate: Test for a schema that combines no others.
        one_of: True if ``oneOf`` has the meaning of ``anyOf``; False to ignore it.

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
