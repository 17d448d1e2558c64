"""Bring the values of a record to what JSON can hold and the schema declares.

Rules of the room: a schema is compiled once to a function from record to record; the
author's own object is never changed here; what a schema does not know is dropped and
said once. The rules for each value are those that users of the Singer SDK rely on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

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
    "Unmapped",
    "compile_conformer",
    "conform_primitive",
    "conform_record_data_types",
    "jsonable",
    "warn_once",
]

Unmapped: TypeAlias = Callable[[tuple[str, ...]], None]
"""Told the dotted paths of the properties that a record had and its schema has not."""

_Conform: TypeAlias = Callable[[Any, list[str]], Any]
"""From a value to its conformed value; appends the paths that were dropped."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ZERO_BIT = b"\x00"


def compile_conformer(
    schema: JsonSchema,
    level: TypeConformanceLevel,
    unmapped: Unmapped,
) -> Callable[[Record], Record]:
    """Return the function that conforms one record of this schema.

    ``unmapped`` is called for each record that has properties beyond the schema, with
    their paths; it decides how often to speak.
    """
    if level == TypeConformanceLevel.NONE:
        return lambda record: record
    conform = _object(schema, level, None)

    def conform_record(record: Record) -> Record:
        dropped: list[str] = []
        result: Record = conform(record, dropped)
        if dropped:
            unmapped(tuple(dropped))
        return result

    return conform_record


def conform_record_data_types(
    stream_name: str,
    record: Record,
    schema: JsonSchema,
    level: TypeConformanceLevel,
    logger: logging.Logger,
) -> Record:
    """Conform one record: the uncompiled form, for callers outside a sync."""
    return compile_conformer(schema, level, warn_once(stream_name, logger))(record)


def warn_once(stream_name: str, logger: logging.Logger) -> Unmapped:
    """Return a function that warns of each distinct set of unknown properties once."""
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
    """Conform a value that is neither a declared object nor a uniform list."""
    if isinstance(value, (str, int)) or value is None:
        pass
    elif isinstance(value, (float, Decimal)):
        return None if math.isnan(value) or math.isinf(value) else value
    elif isinstance(value, bytes):
        return value != _ZERO_BIT if is_boolean_type(schema) else value.hex()
    elif isinstance(value, (date, time, timedelta)):
        return _instant_text(value)
    if is_exclusive_boolean_type(schema):
        return None if value is None else value != 0
    return value


def _instant_text(value: date | time | timedelta) -> str:
    """Return the ISO text of a point in time; a naive date-time is UTC."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return aware.isoformat("T", timespec="microseconds")
    if isinstance(value, timedelta):
        return (_EPOCH + value).isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def jsonable(value: Any) -> Any:
    """Copy a value so that it holds nothing but what JSON has.

    Inside free-form values (no declared properties) nothing is conformed, only
    written: date-times as ``isoformat``, whatever else JSON lacks as text. A lone
    surrogate becomes a question mark, since no UTF-8 text can hold it.
    """
    kind = type(value)
    if kind is str:
        return value.encode("utf-8", "replace").decode() if not value.isascii() else value
    if value is None or kind in (int, bool):
        return value
    if isinstance(value, (float, Decimal)):
        return None if math.isnan(value) or math.isinf(value) else value
    if isinstance(value, Mapping):
        return {_key(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(item) for item in value]
    return _foreign(value)


def _foreign(value: Any) -> Any:
    """Write a value of a type that JSON does not have."""
    if isinstance(value, datetime):
        return value.isoformat("T")
    if isinstance(value, (str, int)):  # subclasses, such as members of a str enum
        return str.__str__(value) if isinstance(value, str) else int(value)
    return jsonable(str(value))


def _key(name: Any) -> str:
    """Write the key of an object as JSON writers do for keys that are no text."""
    if isinstance(name, str):
        return str(jsonable(str.__str__(name)))
    if name is None or isinstance(name, bool):
        return "null" if name is None else str(name).lower()
    return str(name)


def _object(schema: JsonSchema, level: TypeConformanceLevel, parent: str | None) -> _Conform:
    """Compile an object with declared properties."""
    keep_unknown = bool(schema.get("additionalProperties"))
    fields = {
        name: _value(definition, level, f"{parent}.{name}" if parent else name)
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


def _value(schema: JsonSchema, level: TypeConformanceLevel, path: str) -> _Conform:
    """Compile one property: object, uniform list or primitive, as its value turns out."""
    deep = level == TypeConformanceLevel.RECURSIVE
    has_object = bool(is_object_type(schema)) and "properties" in schema
    has_list = bool(is_uniform_list(schema))
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
    """Compile a list whose items share one schema."""
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
