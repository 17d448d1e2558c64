"""Conversion of record values to JSON types and to the types of the stream's schema.

A schema is compiled once to a function that returns a converted copy of a record. Properties that
the schema does not declare are dropped, with one warning. The rules of conversion are those of
singer_sdk's ``conform_record_data_types``.
"""

from __future__ import annotations

import base64
import functools
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from msgspec import json, to_builtins

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
    "SCHEMA_NAME",
    "UnmappedCallback",
    "compile_conformer",
    "conform_primitive",
    "conform_record_data_types",
    "get_primitive_conversion",
    "get_property_schema",
    "has_uniform_items",
    "is_conversion_replaced",
    "is_finite",
    "key_to_text",
    "to_json_compatible",
    "warn_once",
]

UnmappedCallback: TypeAlias = Callable[[tuple[str, ...]], None]
"""Callback for dropped properties, called with their dotted paths, such as ``("a.b",)``."""

_Function = TypeVar("_Function", bound=Callable[..., Any])

_Conform: TypeAlias = Callable[[Any, list[str]], Any]
"""Function that converts a value; it appends the dotted paths of dropped properties to a list."""

SCHEMA_NAME: Final = "The schema of the stream"
"""Beginning of an error about a stream's schema if the name of the stream is not known."""

_UNCHANGED: frozenset[type] = frozenset((str, int, bool, NoneType))
"""Types whose values are JSON values of any schema, except of one that allows only booleans."""

_encode_schema: Final = json.Encoder(enc_hook=repr).encode
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ZERO_BIT = b"\x00"


def compile_conformer(
    schema: JsonSchema,
    level: TypeConformanceLevel,
    unmapped: UnmappedCallback,
    schema_name: str = SCHEMA_NAME,
) -> Callable[[Record], Record]:
    """Compile a function that converts the values of a record to the types of ``schema``.

    The schema is compiled when the function is called first: many streams have no such record.

    Args:
        schema: JSON Schema of the stream.
        level: Values to convert: none, only those of top-level properties, or also those in nested
            objects and lists.
        unmapped: Function that is called with the paths of a record's dropped properties, which the
            schema does not declare.
        schema_name: Beginning of the error message about a schema without properties.

    Returns:
        A function that takes a record and returns a new one. At level ``NONE`` it returns the same
        record. If the schema has no properties, it raises `DiscoveryError` for a record with
        values.
    """
    if level == TypeConformanceLevel.NONE:
        return lambda record: record
    if "properties" not in schema and not schema.get("additionalProperties"):
        return functools.partial(_reject_properties, schema_name)
    get_conform = functools.cache(functools.partial(_compile_object, schema, level, None))

    def conform_record(record: Record) -> Record:
        dropped: list[str] = []
        result: Record = get_conform()(record, dropped)
        if dropped:
            unmapped(tuple(dropped))
        return result

    return conform_record


def _reject_properties(schema_name: str, record: Record) -> Record:
    """Return an empty record unchanged, and reject any other record.

    This is the conversion for a schema without properties, which would drop all values.

    Raises:
        DiscoveryError: The record is not empty.
    """
    if record:
        raise DiscoveryError(
            f"{schema_name} has no 'properties', so no value of a record with"
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
    """Return a copy of a record with its values converted to the types of the schema.

    A warning is logged about dropped properties, once for each combination of names.
    """
    conversion = get_primitive_conversion()
    return _get_conformer(_encode_schema(schema), level, stream_name, logger, conversion)(record)


@functools.lru_cache(maxsize=256)
def _get_conformer(
    schema: bytes,
    level: TypeConformanceLevel,
    stream_name: str,
    logger: logging.Logger,
    _conversion: Callable[[Any, JsonSchema], Any],
) -> Callable[[Record], Record]:
    """Return the function that converts records for `conform_record_data_types`, from the cache.

    ``schema`` is the schema as JSON, because the caller may change the dict between two calls. The
    last argument, the result of `get_primitive_conversion`, is part of the key of the cache.
    """
    return compile_conformer(json.decode(schema), level, warn_once(stream_name, logger))


def warn_once(stream_name: str, logger: logging.Logger) -> UnmappedCallback:
    """Return a callback that logs a warning about dropped properties of a stream.

    It is an argument for ``unmapped`` of `compile_conformer`. Each combination of names is logged
    once.
    """
    warned: set[tuple[str, ...]] = set()

    def unmapped(names: tuple[str, ...]) -> None:
        if names not in warned:
            warned.add(names)
            warn = _get_replaceable("_warn_unmapped_properties", _warn_unmapped_properties)
            warn(stream_name, names, logger)

    return unmapped


def _warn_unmapped_properties(
    stream_name: str, property_names: tuple[str, ...], logger: logging.Logger
) -> None:
    """Log a warning about dropped properties. Taps replace it in `tap_core.helpers._typing`."""
    logger.warning(
        "Properties %s were present in the '%s' stream but not found in catalog schema. Ignoring.",
        property_names,
        stream_name,
    )


def conform_primitive(elem: Any, property_schema: JsonSchema) -> Any:
    """Convert the value of a property to a JSON type, by the rules of singer_sdk.

    NaN and infinity become None. Bytes become text (or a boolean), and dates, times and durations
    become ISO 8601 text. Lists and objects are returned unchanged. If the schema allows only
    booleans, 0 becomes False, and any other integer, text, list or object becomes True.

    Args:
        elem: Value of the property.
        property_schema: JSON Schema of the property.
    """
    if isinstance(elem, (str, int)) or elem is None:
        pass
    elif isinstance(elem, (float, Decimal)):
        return elem if is_finite(elem) else None
    elif isinstance(elem, bytes):
        return _choose_bytes_conversion(property_schema)(elem)
    elif isinstance(elem, (date, time, timedelta)):
        return _format_date_or_time(elem)
    if is_exclusive_boolean_type(property_schema):
        return None if elem is None else elem != 0
    return elem


_conform_primitive_property = conform_primitive
"""Name of `conform_primitive` in singer_sdk. Taps replace it in `tap_core.helpers._typing`."""


def get_primitive_conversion() -> Callable[[Any, JsonSchema], Any]:
    """Return the function that converts a single value to JSON, by default `conform_primitive`.

    Many SQL taps replace it, to format dates and times in another way, by assigning a function to
    ``tap_core.helpers._typing._conform_primitive_property``.
    """
    return _get_replaceable("_conform_primitive_property", conform_primitive)


def _get_replaceable(name: str, default: _Function) -> _Function:
    """Return the function ``name`` of `tap_core.helpers._typing`, which a tap may have replaced."""
    helpers = sys.modules.get("tap_core.helpers._typing")
    return cast(_Function, getattr(helpers, name, default))


def is_conversion_replaced() -> bool:
    """Return True if a tap has replaced the function that converts a single value to JSON."""
    return get_primitive_conversion() is not conform_primitive


def _choose_bytes_conversion(schema: JsonSchema) -> Callable[[bytes], str | bool]:
    """Return a function that converts bytes to text.

    The text is hexadecimal, or Base64 if the schema has that ``contentEncoding``. If the schema
    allows booleans, the function returns False for a single zero byte and True for other bytes, as
    singer_sdk does.
    """
    if is_boolean_type(schema):
        return lambda value: value != _ZERO_BIT
    if schema.get("contentEncoding") == "base64":
        return lambda value: base64.b64encode(value).decode()
    return bytes.hex


def _format_date_or_time(value: date | time | timedelta) -> str:
    """Convert a date, datetime, time or duration to ISO 8601 text.

    A datetime without a timezone is assumed to be UTC. A duration is added to 1970-01-01 UTC, and
    the resulting datetime is returned as text, as singer_sdk does.
    """
    if isinstance(value, datetime):
        return format_iso(value)
    if isinstance(value, timedelta):
        return (_EPOCH + value).isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


_EXACT_CONVERSIONS: Final[Mapping[type, Callable[[Any], str]]] = {
    datetime: format_iso,
    date: to_builtins,
}
"""Conversions of values of frequent types, not of their subclasses, as in `conform_primitive`."""


def is_finite(value: float | Decimal) -> bool:
    """Return True if JSON can represent a number, because it is neither NaN nor infinity."""
    return value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)


def to_json_compatible(value: Any) -> Any:
    """Convert a value of any Python type to JSON types and Decimals, without a schema.

    Datetimes become ISO 8601 text, bytes are decoded as UTF-8, named tuples become dicts, NaN and
    infinity become None, and instances of other types become their ``str()``. A lone surrogate in
    text becomes a question mark, because UTF-8 cannot represent it.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if kind in _UNCHANGED:
        return value
    if isinstance(value, Mapping):
        return {key_to_text(name): to_json_compatible(item) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return to_json_compatible(value._asdict())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json_compatible(item) for item in value]
    return _scalar_to_json(value)


def _scalar_to_json(value: Any) -> Any:
    """Convert a single value (no list or object) to a JSON type or a Decimal.

    A value of a subclass becomes one of the base type (NumPy's float64 becomes float), because JSON
    encoders would write it as text.
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


def key_to_text(name: Any) -> str:
    """Convert a dict key to text as the ``json`` module does: None becomes ``null``."""
    if type(name) is str:
        return str(to_json_compatible(name))
    if name is None or isinstance(name, bool):
        return "null" if name is None else str(name).lower()
    return str(_scalar_to_json(name))


def _compile_object(
    schema: JsonSchema, level: TypeConformanceLevel, parent: str | None
) -> _Conform:
    """Return a function that converts the properties of an object to the types of its schema.

    Properties that the schema does not declare are dropped, unless ``additionalProperties`` allows
    them. The function appends their paths to its second argument, a list. ``parent`` is the dotted
    path of the object, or None for the record itself.
    """
    keep_unknown = bool(schema.get("additionalProperties"))
    fields = {
        name: _compile_value(
            get_property_schema(definition), level, f"{parent}.{name}" if parent else name
        )
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
    """Return the schema of a property as a dict; a boolean schema (``true``) becomes ``{}``."""
    return schema if isinstance(schema, dict) else {}


def has_uniform_items(schema: JsonSchema) -> bool:
    """Return True if a schema allows arrays and has one schema for all their items.

    Return False if the schema has no type.
    """
    try:
        return isinstance(schema.get("items"), dict) and is_uniform_list(schema)
    except (EmptySchemaTypeError, ValueError):
        return False


def _compile_value(schema: JsonSchema, level: TypeConformanceLevel, path: str) -> _Conform:
    """Return a function that converts the value of a property to the types of its schema.

    ``path`` is the dotted path of the property, such as ``a.b``.
    """
    deep = level == TypeConformanceLevel.RECURSIVE
    convert = _compile_primitive(schema)
    has_object = "properties" in schema and bool(is_object_type(schema))
    has_list = has_uniform_items(schema)
    if not has_object and not has_list:
        return convert
    as_object = _compile_object(schema, level, path) if has_object and deep else None
    as_list = _compile_list(schema["items"], level, path) if has_list and deep else None

    def conform(value: Any, dropped: list[str]) -> Any:
        if has_list and isinstance(value, list):
            return as_list(value, dropped) if as_list else value
        if has_object and isinstance(value, dict):
            return as_object(value, dropped) if as_object else value
        return convert(value, dropped)

    return conform


def _compile_primitive(schema: JsonSchema) -> _Conform:
    """Return a function that converts a value with `conform_primitive` or the tap's replacement."""
    convert = get_primitive_conversion()
    if convert is not conform_primitive or is_exclusive_boolean_type(schema):
        return lambda value, _dropped: convert(value, schema)

    conversions = {**_EXACT_CONVERSIONS, bytes: _choose_bytes_conversion(schema)}

    def conform(value: Any, _dropped: list[str]) -> Any:
        kind = type(value)
        if kind in _UNCHANGED:
            return value
        exact = conversions.get(kind)
        return conform_primitive(value, schema) if exact is None else exact(value)

    return conform


def _compile_list(items: JsonSchema, level: TypeConformanceLevel, path: str) -> _Conform:
    """Return a function that converts each item of a list to the types of its schema, ``items``."""
    convert = _compile_primitive(items)
    as_object = (
        _compile_object(items, level, path)
        if "properties" in items and is_object_type(items)
        else None
    )

    def conform(values: Iterable[Any], dropped: list[str]) -> list[Any]:
        return [
            as_object(value, dropped)
            if as_object is not None and isinstance(value, dict)
            else convert(value, dropped)
            for value in values
        ]

    return conform
