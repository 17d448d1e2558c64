"""Deprecated functions that convert between SQL types and JSON Schema.

``sqlalchemy`` is optional, and imported only when one of its types is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from importlib import import_module
from typing import Any, Final

from tap_core.exceptions import SingerSDKPendingDeprecationWarning
from tap_core.schema.type_variants import get_types
from tap_core.types import JsonSchema
from tap_core.typing.base import JSONTypeHelper
from tap_core.typing.inspect import get_datelike_property_type
from tap_core.typing.scalars import (
    BooleanType,
    DateTimeType,
    DateType,
    IntegerType,
    NumberType,
    StringType,
)

__all__ = ["admits_type", "to_jsonschema_type", "to_sql_type"]

_BY_NAME: Final[tuple[tuple[str, type[JSONTypeHelper[Any]]], ...]] = (
    ("timestamp", DateTimeType),
    ("datetime", DateTimeType),
    ("date", DateType),
    ("int", IntegerType),
    ("number", NumberType),
    ("decimal", NumberType),
    ("double", NumberType),
    ("float", NumberType),
    ("string", StringType),
    ("text", StringType),
    ("char", StringType),
    ("bool", BooleanType),
    ("variant", StringType),
)
"""Type helpers for SQL types, each with a text that the lower-case name of the type contains.

The first text that occurs in the name determines the type helper.
"""

_DATELIKE: Final = {"date-time": "DATETIME", "time": "TIME", "date": "DATE"}


def to_jsonschema_type(from_type: Any) -> JsonSchema:
    """Return the JSON Schema for values of a SQL type. For an unknown type, return a string schema.

    Args:
        from_type: Name of a SQL type, a SQLAlchemy type, or a SQLAlchemy type class.

    Raises:
        ValueError: The object is not a SQL type.
    """
    _warn_deprecated("SQLToJSONSchema")
    name = (from_type if isinstance(from_type, str) else _type_name(from_type)).lower()
    kind = next((kind for part, kind in _BY_NAME if part in name), StringType)
    schema: JsonSchema = kind.type_dict
    return schema


def to_sql_type(jsonschema_type: JsonSchema) -> Any:
    """Return a SQLAlchemy type for values of a JSON Schema, such as ``INTEGER()``."""
    _warn_deprecated("JSONSchemaToSQL")
    name = _sql_name(jsonschema_type)
    kind = getattr(_sqlalchemy_types(), name)
    if name == "VARCHAR" and not admits_type(jsonschema_type, ("object", "array")):
        is_text = admits_type(jsonschema_type, ("string",))
        return kind(jsonschema_type.get("maxLength") if is_text else None)
    return kind()


def _warn_deprecated(successor: str) -> None:
    warnings.warn(f"Use `{successor}` instead.", SingerSDKPendingDeprecationWarning, stacklevel=3)


def _sqlalchemy_types() -> Any:
    """Import and return the module `sqlalchemy.types`.

    Raises:
        ModuleNotFoundError: SQLAlchemy is not installed; the message says how to install it.
    """
    try:
        return import_module("sqlalchemy.types")
    except ModuleNotFoundError as ex:
        msg = "SQL types need SQLAlchemy: pip install 'tap-core-sdk[sql]'"
        raise ModuleNotFoundError(msg, name=ex.name) from ex


def _type_name(sql_type: Any) -> str:
    """Return the class name of a SQLAlchemy type; raise ValueError for any other object."""
    kind = sql_type if isinstance(sql_type, type) else type(sql_type)
    if issubclass(kind, _sqlalchemy_types().TypeEngine):
        return kind.__name__
    msg = f"{sql_type!r} is neither the name of a SQL type nor a SQLAlchemy type"
    raise ValueError(msg)


def _sql_name(schema: JsonSchema) -> str:
    """Return the name of the SQLAlchemy type for a JSON Schema, such as ``VARCHAR``."""
    if admits_type(schema, ("object", "array")):
        return "VARCHAR"
    if admits_type(schema, ("string",)):
        return _DATELIKE.get(get_datelike_property_type(schema) or "", "VARCHAR")
    numbers = (("integer", "INTEGER"), ("number", "DECIMAL"), ("boolean", "BOOLEAN"))
    return next((name for kind, name in numbers if admits_type(schema, (kind,))), "VARCHAR")


def admits_type(jsonschema_type: JsonSchema, type_check: Collection[str]) -> bool:
    """Return True if a schema, or a schema in its ``anyOf``, has a type in ``type_check``."""
    if any(name in type_check for name in get_types(jsonschema_type)):
        return True
    return any(admits_type(option, type_check) for option in jsonschema_type.get("anyOf", ()))
