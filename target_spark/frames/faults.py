"""What can be wrong with a line, and how to say it.

Rules of the room: pure text, made once per layout, on top of the exact plan's values.
A fault is told for each value in a struct or an array too, by its path in the record.
What JSON's reader itself refused is found by reading each structured value once more by
itself: the reader does not tell which one it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from target_spark.columns import (
    DELETED_AT,
    METADATA_COLUMNS,
    Array,
    Binary,
    Boolean,
    Column,
    ColumnType,
    Date,
    Decimal,
    Double,
    Feed,
    Integer,
    Layout,
    Struct,
    Timestamp,
)
from target_spark.frames.reading import READER_OPTIONS, needs_record, source_type
from target_spark.frames.rows import exact_plan
from target_spark.frames.strict import is_scalar, strict
from target_spark.names import quote

__all__ = ["any_fault", "reasons_of", "reasons_of_unread"]

_CACHED_LAYOUTS = 64

_UNREADABLE = "the record is not of the structure that the schema declares"


class _Fault(NamedTuple):
    """A condition in SQL (true or false, never null), and what it says of the record."""

    condition: str
    reason: str


@lru_cache(maxsize=_CACHED_LAYOUTS)
def any_fault(layout: Layout) -> str:
    """Return a condition that is true for a line that does not fit, else false."""
    known = (f"CASE WHEN {fault.condition} THEN 1 END" for fault in _faults_of(layout))
    unread = "CASE WHEN `_corrupt` IS NOT NULL THEN 1 END"
    return f"(coalesce({unread}, {', '.join(known)}) IS NOT NULL)"


@lru_cache(maxsize=_CACHED_LAYOUTS)
def reasons_of(layout: Layout) -> str:
    """Return what is wrong with the values of a line, as an array of texts."""
    known = (
        f"CASE WHEN {fault.condition} THEN {_literal(fault.reason)} END"
        for fault in _faults_of(layout)
    )
    return f"array_compact(array({', '.join(known)}))"


def reasons_of_unread(layout: Layout) -> str:
    """Return why JSON's reader gave up on the record in ``raw``, as an array of texts.

    Each column's value becomes a variant first, because that alone keeps a string apart
    from what is in it.
    """
    columns = [
        column
        for column in layout.columns
        if column.feed is Feed.PROPERTY and isinstance(column.type, Boolean | Struct | Array)
    ]
    if not columns:
        return f"array({_literal(_UNREADABLE)})"
    variants = ", ".join(f"{quote(column.source)} VARIANT" for column in columns)
    record = _from_json("`raw`", variants)
    tests = ", ".join(_structure_test(record, column) for column in columns)
    found = f"array_compact(array({tests}))"
    return f"if(size({found}) > 0, {found}, array({_literal(_UNREADABLE)}))"


def _structure_test(record: str, column: Column) -> str:
    alone = f"concat('{{\"c\":', to_json({record}.{quote(column.source)}), '}}')"
    read = _from_json(alone, f"`c` {source_type(column.type)}, `_corrupt` STRING")
    reason = f"{column.source}: not of the declared type {column.type.ddl}"
    return f"CASE WHEN {read}.`_corrupt` IS NOT NULL THEN {_literal(reason)} END"


def _from_json(text: str, schema: str) -> str:
    options = (f"{_literal(name)}, {_literal(value)}" for name, value in READER_OPTIONS.items())
    return f"from_json({text}, {_literal(schema)}, map({', '.join(options)}))"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@lru_cache(maxsize=_CACHED_LAYOUTS)
def _faults_of(layout: Layout) -> tuple[_Fault, ...]:
    """Return everything that can be wrong with a line that JSON's reader took."""
    converted = exact_plan(layout).converted
    faults = [_Fault("(`_corrupt` IS NULL AND `r` IS NULL)", "the record is null")]
    for column in layout.columns:
        if column.feed is Feed.PROPERTY:
            faults += _faults_in(column.source, column.type, converted)
        elif column.feed is Feed.WHOLE:
            faults.append(_Fault("coalesce(NOT startswith(`r`, '{'), false)", "no object"))
    if needs_record(layout.columns):
        faults += _faults_in(DELETED_AT, METADATA_COLUMNS[DELETED_AT], converted)
    for key in layout.key_sources:
        missing = f"(`_corrupt` IS NULL AND {quote('r', key)} IS NULL)"
        faults.append(_Fault(missing, f"{key}: a key must have a value"))
    return tuple(faults)


def _faults_in(source: str, type_: ColumnType, converted: Mapping[str, str]) -> Iterator[_Fault]:
    text = quote("r", source)
    if source in converted:
        yield _Fault(
            f"({text} IS NOT NULL AND {converted[source]} IS NULL)", _reason(source, type_)
        )
    else:
        yield from _faults_inside(text, type_, source)


def _faults_inside(value: str, type_: ColumnType, path: str, depth: int = 0) -> Iterator[_Fault]:
    if isinstance(type_, Struct):
        for field in type_.fields:
            if field.feed is Feed.PROPERTY:
                inner = f"{value}.{quote(field.source)}"
                yield from _faults_inside(inner, field.type, f"{path}.{field.source}", depth)
    elif isinstance(type_, Array):
        item = f"`i{depth}`"
        for fault in _faults_inside(item, type_.element, f"{path}[]", depth + 1):
            found = f"coalesce(exists({value}, {item} -> {fault.condition}), false)"
            yield _Fault(found, fault.reason)
    elif is_scalar(type_):
        condition = f"({value} IS NOT NULL AND ({strict(value, type_)}) IS NULL)"
        yield _Fault(condition, _reason(path, type_))


def _reason(path: str, type_: ColumnType) -> str:
    return f"{path}: {_what_it_is_not(type_)}"


def _what_it_is_not(type_: ColumnType) -> str:
    if isinstance(type_, Integer):
        return f"no whole number of {type_.bits} bits"
    if isinstance(type_, Decimal):
        whole = type_.precision - type_.scale
        return f"no number of at most {whole} digits before and {type_.scale} after the point"
    return {
        Double: "no number, or one beyond the range of a double",
        Timestamp: "no date-time (RFC 3339, to the microsecond, years 0001 to 9999)",
        Date: "no date (YYYY-MM-DD, years 0001 to 9999)",
        Binary: "no base64",
    }[type(type_)]
