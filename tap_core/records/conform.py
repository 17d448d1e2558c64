"""Conversion of record values to JSON types and to the types of the stream's schema.

A schema is compiled once to a function from record to record. The author's own record is never
changed. Properties that are not in the schema are dropped, with one warning. The rules for each
value are those of singer_sdk's ``conform_record_data_types``.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from tap_core.exceptions import DiscoveryError, EmptySchemaTypeError
from tap_core.parsing.datetimes import format_iso
from tap_core.typing.inspect import (
    TypeConformanceLevel,
    is_boolean_type,
    is_exclusive_boolean_type,
    is_object_type,
    is_uniform_list,
)

if TYPE_CHECKING:
    import logging

    from tap_core.types import JsonSchema, Record

__all__ = [
    "UnmappedCallback",
    "compile_conformer",
    "conform_primitive",
    "conform_record_data_types",
    "get_property_schema",
    "has_uniform_items",
    "is_finite",
    "to_json_compatible",
    "warn_once",
]

UnmappedCallback: TypeAlias = Callable[[tuple[str, ...]], None]
"""Callback for dropped properties; its argument is a tuple of their dotted paths."""

_Conform: TypeAlias = Callable[[Any, list[str]], Any]
"""Function that converts a value; it appends the dotted paths of dropped properties to a list."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ZERO_BIT = b"\x00"


def compile_conformer(
    schema: JsonSchema,
    level: TypeConformanceLevel,
    unmapped: UnmappedCallback,
) -> Callable[[Record], Record]:
    """Return a function that converts one record to the types of ``schema``.

    Args:
        schema: JSON Schema of the stream.
        level: How deep values are converted: not at all, top-level properties only, or also nested
            objects and lists.
        unmapped: Called for each record with properties that the schema does not declare. These
            properties are dropped.

    Returns:
        The function. It returns a new record, except at level ``NONE``, where it returns its
        argument. For a schema without properties it raises `DiscoveryError` for any record that is
        not empty.
    """
    if level == TypeConformanceLevel.NONE:
        return lambda record: record
    if "properties" not in schema and not schema.get("additionalProperties"):
        return _reject_fields
    conform = _object(schema, level, None)

    def conform_record(record: Record) -> Record:
        dropped: list[str] = []
        result: Record = conform(record, dropped)
        if dropped:
            unmapped(tuple(dropped))
        return result

    return conform_record


def _reject_fields(record: Record) -> Record:
    """Return an empty record unchanged, and reject any other record.

    Used to convert the records of a schema without properties, which would lose all their values.

    Raises:
        DiscoveryError: The record is not empty.
    """
    if record:
        raise DiscoveryError(
            "The schema of the stream has no 'properties', so no value of a record with"
            f" {', '.join(map(repr, record))} would be sent. Declare them, or allow all with"
            ' "additionalProperties": true.'
        )
    return record


def conform_record_data_types(
    stream_name: str,
    record: Record,
    schema: JsonSchema,
    level: TypeConformanceLevel,
    logger: logging.Logger,
) -> Record:
    """Return a record with its values converted to the types of the schema.

    The schema is compiled at each call. For many records use `compile_conformer` instead.
    """
    return compile_conformer(schema, level, warn_once(stream_name, logger))(record)


def warn_once(stream_name: str, logger: logging.Logger) -> UnmappedCallback:
    """Return a callback that logs a warning about properties that the schema does not declare.

    The same set of properties is logged once. Pass it to `compile_conformer` as ``unmapped``.
    """
    seen: set[tuple[str, ...]] = set()

    def unmapped(names: tuple[str, ...]) -> None:
        if names not in seen:
            seen.add(names)
            logger.warning(
                "Properties %s were present in the '%s' stream but not found in catalog"
                " schema. Ignoring.",
                names,
                stream_name,
            )

    return unmapped


def conform_primitive(value: Any, schema: JsonSchema) -> Any:
    """Convert a value, by its property's schema, to a value that JSON can represent.

    NaN and infinity become None. Bytes become text (or a boolean), and dates, times and durations
    become ISO 8601 text. For a property of type boolean, every other value becomes a boolean.
    Lists and objects are returned unchanged.
    """
    if isinstance(value, (str, int)) or value is None:
        pass
    elif isinstance(value, (float, Decimal)):
        return value if is_finite(value) else None
    elif isinstance(value, bytes):
        return _bytes_to_text(value, schema)
    elif isinstance(value, (date, time, timedelta)):
        return _instant_text(value)
    if is_exclusive_boolean_type(schema):
        return None if value is None else value != 0
    return value


def _bytes_to_text(value: bytes, schema: JsonSchema) -> str | bool:
    """Return bytes as hexadecimal text, like singer_sdk.

    For ``contentEncoding: base64`` the text is base64. For a boolean property, return False for a
    single zero byte and True for any other bytes.
    """
    if is_boolean_type(schema):
        return value != _ZERO_BIT
    if schema.get("contentEncoding") == "base64":
        return base64.b64encode(value).decode()
    return value.hex()


def _instant_text(value: date | time | timedelta) -> str:
    """Return the ISO 8601 text of a date, time or duration.

    A datetime without a timezone is assumed to be UTC. A duration is added to 1970-01-01 and
    written as the resulting datetime, like in singer_sdk.
    """
    if isinstance(value, datetime):
        return format_iso(value)
    if isinstance(value, timedelta):
        return (_EPOCH + value).isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def is_finite(value: float | Decimal) -> bool:
    """Return True for a number that JSON can represent, False for NaN and infinity."""
    return value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)


def to_json_compatible(value: Any) -> Any:
    """Return a copy of a value that consists only of JSON types and Decimals, without subclasses.

    No schema is used. Datetimes become ISO 8601 text, bytes UTF-8 text, named tuples objects, NaN
    and infinity None, and all other types their ``str()``. A lone surrogate in text becomes a
    question mark, since UTF-8 cannot represent it.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if value is None or kind in (int, bool):
        return value
    if isinstance(value, Mapping):
        return {_key(name): to_json_compatible(item) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return to_json_compatible(value._asdict())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json_compatible(item) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    """Convert a value that is neither a list nor an object to a JSON type or a Decimal.

    Instances of subclasses become instances of the base type (NumPy's float64 becomes float),
    because the JSON encoders would write them as text.
    """
    if isinstance(value, (float, Decimal)):
        exact = float if isinstance(value, float) else Decimal
        return exact(value) if is_finite(value) else None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return to_json_compatible(str.__str__(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.isoformat("T") if isinstance(value, datetime) else to_json_compatible(str(value))


def _key(name: Any) -> str:
    """Return a dict key as text, converted as the ``json`` module does (None becomes ``null``)."""
    if name is None or isinstance(name, bool):
        return "null" if name is None else str(name).lower()
    return str(_scalar(name))


def _object(schema: JsonSchema, level: TypeConformanceLevel, parent: str | None) -> _Conform:
    """Return a function that converts the declared properties of an object and drops all others.

    ``parent`` is the dotted path of the object, or None for the record itself.
    """
    keep_unknown = bool(schema.get("additionalProperties"))
    fields = {
        name: _value(get_property_schema(definition), level, f"{parent}.{name}" if parent else name)
        for name, definition in (schema.get("properties") or {}).items()
    }

    def conform(record: Record, dropped: list[str]) -> Record:
        result: Record = {}
        for name, value in record.items():
            field = fields.get(name)
            if field is not None:
                result[name] = field(value, dropped)
            elif keep_unknown:
                result[name] = value
            else:
                dropped.append(f"{parent}.{name}" if parent else str(name))
        return result

    return conform


def get_property_schema(schema: Any) -> JsonSchema:
    """Return a property's schema. For the schemas ``true`` and ``false``, return an empty dict."""
    return schema if isinstance(schema, dict) else {}


def has_uniform_items(schema: JsonSchema) -> bool:
    """Return True if a schema has the type array and one schema for all items.

    Return False for a schema without a type.
    """
    try:
        return is_uniform_list(schema)
    except (EmptySchemaTypeError, ValueError):
        return False


def _value(schema: JsonSchema, level: TypeConformanceLevel, path: str) -> _Conform:
    """Return a function that converts a property's value, of any Python type, by its schema."""
    deep = level == TypeConformanceLevel.RECURSIVE
    has_object = bool(is_object_type(schema)) and "properties" in schema
    has_list = has_uniform_items(schema)
    if not has_object and not has_list:
        return lambda value, _dropped: conform_primitive(value, schema)
    as_object = _object(schema, level, path) if has_object and deep else None
    as_list = _list(schema["items"], level, path) if has_list and deep else None

    def conform(value: Any, dropped: list[str]) -> Any:
        if has_list and isinstance(value, list):
            return as_list(value, dropped) if as_list else value
        if has_object and isinstance(value, dict):
            return as_object(value, dropped) if as_object else value
        return conform_primitive(value, schema)

    return conform


def _list(items: JsonSchema, level: TypeConformanceLevel, path: str) -> _Conform:
    """Return a function that converts each item of a list by the schema ``items``."""
    as_object = (
        _object(items, level, path) if is_object_type(items) and "properties" in items else None
    )

    def conform(values: Iterable[Any], dropped: list[str]) -> list[Any]:
        return [
            as_object(value, dropped)
            if as_object is not None and isinstance(value, dict)
            else conform_primitive(value, items)
            for value in values
        ]

    return conform
