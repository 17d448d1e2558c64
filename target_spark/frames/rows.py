"""A layout as Spark SQL: what each column is, and what can be wrong with a line.

Rules of the room: pure text, made once per layout. Values and faults come from the same
strict conversions, so a value that a row would lose is always a fault of that row. A
column or field is only ever named through `quote`.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from target_spark.frames.reading import needs_record, source_type
from target_spark.frames.strict import is_converted, strict, without_zone
from target_spark.names import quote

__all__ = [
    "BAD_ROWS",
    "UNREADABLE",
    "Fault",
    "check_of",
    "faults_of",
    "first_fault",
    "literal",
    "reasons_of",
    "structured_columns",
    "values_of",
    "wrapped",
    "zoneless_of",
]

BAD_ROWS = "BAD_ROWS"
"""The text in the error of a job that met a row which does not fit."""

UNREADABLE = "the record is not of the structure that the schema declares"

_CACHED_LAYOUTS = 64

_SEQUENCE_STEP = 2**20
"""Records for each millisecond of a run before its sequence numbers could meet those of
a run that starts later."""


class Fault(NamedTuple):
    """A condition in SQL (true or false, never null), and what it says of the record."""

    condition: str
    reason: str


def literal(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# ------------------------------------------------------------------------------ values


@lru_cache(maxsize=_CACHED_LAYOUTS)
def values_of(layout: Layout, *, fail: bool) -> tuple[str, ...]:
    """Return an expression for each column in the layout's order, named as in the table.

    With ``fail`` a value that does not fit ends the job; else it is null. The columns of
    metadata that come from the run are `run_value`'s and are left out as null here.
    """
    return tuple(
        f"{_value_of(column, fail=fail)} AS {quote(column.name)}" for column in layout.columns
    )


def _value_of(column: Column, *, fail: bool) -> str:
    if column.feed is Feed.PROPERTY:
        return _converted(quote("r", column.source), column.type, fail=fail)
    if column.feed is Feed.WHOLE:
        return quote("r")
    if column.feed is Feed.METADATA:
        return _metadata(column.source, fail=fail)
    return f"CAST(NULL AS {column.type.ddl})"


def _metadata(name: str, *, fail: bool) -> str:
    if name == DELETED_AT:
        return _converted(quote("r", DELETED_AT), METADATA_COLUMNS[DELETED_AT], fail=fail)
    return {
        "_sdc_extracted_at": f"if(`t` IS NULL, `_received_at`, {strict('`t`', Timestamp())})",
        "_sdc_received_at": "`_received_at`",
        "_sdc_batched_at": "`_batched_at`",
        "_sdc_sequence": f"`_started_at` * {_SEQUENCE_STEP}L + `n`",
        "_sdc_table_version": "`v`",
        "_sdc_sync_started_at": "`_started_at`",
    }[name]


def _converted(value: str, type_: ColumnType, *, fail: bool, depth: int = 0) -> str:
    if not is_converted(type_):
        return value
    if isinstance(type_, Struct):
        fields = ", ".join(_field(value, field, fail=fail, depth=depth) for field in type_.fields)
        return f"if({value} IS NULL, NULL, struct({fields}))"
    if isinstance(type_, Array):
        item = f"`i{depth}`"
        inner = _converted(item, type_.element, fail=fail, depth=depth + 1)
        return f"transform({value}, {item} -> {inner})"
    converted = strict(value, type_)
    if not fail:
        return converted
    return f"coalesce({converted}, assert_true({value} IS NULL, '{BAD_ROWS}'))"


def _field(value: str, field: Column, *, fail: bool, depth: int) -> str:
    if field.feed is not Feed.PROPERTY:
        return f"CAST(NULL AS {field.type.ddl}) AS {quote(field.name)}"
    inner = _converted(f"{value}.{quote(field.source)}", field.type, fail=fail, depth=depth)
    return f"{inner} AS {quote(field.name)}"


# ------------------------------------------------------------------------------ faults


@lru_cache(maxsize=_CACHED_LAYOUTS)
def faults_of(layout: Layout) -> tuple[Fault, ...]:
    """Return everything that can be wrong with a line that JSON's reader took."""
    faults = [Fault("(`_corrupt` IS NULL AND `r` IS NULL)", "the record is null")]
    for column in layout.columns:
        if column.feed is Feed.PROPERTY:
            faults += _faults(quote("r", column.source), column.type, column.source)
        elif column.feed is Feed.WHOLE:
            faults.append(Fault("coalesce(NOT startswith(`r`, '{'), false)", "is no object"))
    if needs_record(layout.columns):
        faults += _faults(quote("r", DELETED_AT), METADATA_COLUMNS[DELETED_AT], DELETED_AT)
    faults += (
        Fault(
            f"(`_corrupt` IS NULL AND {quote('r', key)} IS NULL)", f"{key}: a key must have a value"
        )
        for key in layout.key_sources
    )
    return tuple(faults)


def _faults(value: str, type_: ColumnType, path: str, depth: int = 0) -> Iterator[Fault]:
    if isinstance(type_, Struct):
        for field in type_.fields:
            if field.feed is Feed.PROPERTY:
                inner = f"{value}.{quote(field.source)}"
                yield from _faults(inner, field.type, f"{path}.{field.source}", depth)
    elif isinstance(type_, Array):
        item = f"`i{depth}`"
        for fault in _faults(item, type_.element, f"{path}[]", depth + 1):
            found = f"coalesce(exists({value}, {item} -> {fault.condition}), false)"
            yield Fault(found, fault.reason)
    elif is_converted(type_):
        condition = f"({value} IS NOT NULL AND ({strict(value, type_)}) IS NULL)"
        yield Fault(condition, f"{path}: {_what_it_is_not(type_)}")


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


def check_of(layout: Layout) -> str:
    """Return a condition that is true, or ends the job where a whole line does not fit.

    What is wrong with single values ends it in `values_of`, where they are made anyway.
    """
    fits = ["`_corrupt` IS NULL", "`r` IS NOT NULL"]
    fits += (f"{quote('r', key)} IS NOT NULL" for key in layout.key_sources)
    fits += ("startswith(`r`, '{')" for c in layout.columns if c.feed is Feed.WHOLE)
    return f"if({' AND '.join(fits)}, true, raise_error('{BAD_ROWS}'))"


@lru_cache(maxsize=_CACHED_LAYOUTS)
def first_fault(layout: Layout) -> str:
    """Return the first thing that is wrong with a line, or null: cheaper than all."""
    known = (
        f"CASE WHEN {fault.condition} THEN {n} END" for n, fault in enumerate(faults_of(layout))
    )
    return f"coalesce(CASE WHEN `_corrupt` IS NOT NULL THEN -1 END, {', '.join(known)})"


@lru_cache(maxsize=_CACHED_LAYOUTS)
def reasons_of(layout: Layout) -> str:
    """Return everything that is wrong with a line that was read, as a list of texts."""
    known = (
        f"CASE WHEN {fault.condition} THEN {literal(fault.reason)} END"
        for fault in faults_of(layout)
    )
    return f"array_compact(array({', '.join(known)}))"


@lru_cache(maxsize=_CACHED_LAYOUTS)
def structured_columns(layout: Layout) -> tuple[Column, ...]:
    """Return the columns whose values JSON's reader itself can find wrong."""
    return tuple(
        column
        for column in layout.columns
        if column.feed is Feed.PROPERTY and isinstance(column.type, Boolean | Struct | Array)
    )


# ------------------------------------------------------------------------------- zones


@lru_cache(maxsize=_CACHED_LAYOUTS)
def zoneless_of(layout: Layout) -> dict[str, str]:
    """Return, by column name, how many date-times in a row say no zone (and are UTC)."""
    counted = {}
    for column in layout.columns:
        if column.feed is Feed.PROPERTY:
            found = list(_zoneless(quote("r", column.source), column.type))
            if found:
                counted[column.name] = " + ".join(found)
    return counted


def _zoneless(value: str, type_: ColumnType, depth: int = 0) -> Iterator[str]:
    if isinstance(type_, Timestamp):
        yield f"if({without_zone(value)}, 1, 0)"
    elif isinstance(type_, Struct):
        for field in type_.fields:
            if field.feed is Feed.PROPERTY:
                yield from _zoneless(f"{value}.{quote(field.source)}", field.type, depth)
    elif isinstance(type_, Array):
        item = f"`i{depth}`"
        inner = " + ".join(_zoneless(item, type_.element, depth + 1))
        if inner:
            total = f"aggregate({value}, 0, (`s{depth}`, {item}) -> `s{depth}` + {inner})"
            yield f"coalesce({total}, 0)"


def wrapped(column: Column) -> str:
    """Return the type of an object with the column's value as its only property."""
    return f"`c` {source_type(column.type)}, `_corrupt` STRING"
