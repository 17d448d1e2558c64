"""What can be wrong with a line, and how to say it.

Rules of the room: pure text, made once per layout, from the same strict conversions as
the values: a text whose value is null is a fault, and nothing else is. A fault is told
for each value in a struct or an array too, by its path in the record. Faults are looked
for by type, as the exact plan's values are made.
What JSON's reader itself refused is found by reading each structured value once more by
itself: the reader does not tell which one it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from target_spark.columns import (
    Array,
    Binary,
    Boolean,
    ColumnType,
    Date,
    Decimal,
    Double,
    Feed,
    Integer,
    Layout,
    LocalTimestamp,
    Struct,
    Timestamp,
)
from target_spark.frames.reading import from_json, source_type
from target_spark.frames.rows import by_type, converted_columns, falsified_keys, in_record
from target_spark.frames.strict import is_scalar, strict
from target_spark.names import literal, quote

__all__ = ["Faults", "Unread", "faults_of", "unread_of"]

_CACHED_LAYOUTS = 64

_NO_DATE_TIME = "no date-time (RFC 3339, to the microsecond, years 0001 to 9999)"

_LONGEST_TYPE = 120
"""Signs of a type that a reason shows."""

_UNREADABLE = "the record is not of the structure that the schema declares"


class Faults(NamedTuple):
    """How to find what is wrong with a line that was read.

    ``together`` are expressions to be made first. ``any`` is true for a line that does
    not fit, else false; ``reasons`` tells what is wrong with its values, as texts.
    """

    together: tuple[str, ...]
    any: str
    reasons: str


class _Fault(NamedTuple):
    """A condition in SQL (true or false, never null), and what it says of the record."""

    condition: str
    reason: str


@lru_cache(maxsize=_CACHED_LAYOUTS)
def faults_of(layout: Layout) -> Faults:
    """Return how to find everything that can be wrong with a line."""
    columns = converted_columns(layout)
    each = partial(_faults_of_a_value, cut=layout.cut_timestamps)
    together, places = by_type(columns, each, "_faults", in_record)
    found = [f"size({place}) > 0" for place in places.values()]
    of_values = [
        f"transform({place}, `f` -> concat({literal(source)}, `f`))"
        for source, place in places.items()
    ]
    of_lines = _faults_of_a_line(layout)
    conditions = ["`_corrupt` IS NOT NULL", *(fault.condition for fault in of_lines), *found]
    cases = ", ".join(f"CASE WHEN {condition} THEN 1 END" for condition in conditions)
    reasons = f"concat({', '.join((_reasons(of_lines), *of_values))})"
    return Faults(together, f"(coalesce({cases}) IS NOT NULL)", reasons)


def _faults_of_a_value(type_: ColumnType, *, cut: bool) -> str:
    return _reasons(_faults_inside("`i`", type_, "", cut=cut))


def _reasons(faults: Iterable[_Fault]) -> str:
    known = (f"CASE WHEN {fault.condition} THEN {literal(fault.reason)} END" for fault in faults)
    cases = ", ".join(known)
    return f"array_compact(array({cases}))" if cases else "CAST(array() AS ARRAY<STRING>)"


def _faults_of_a_line(layout: Layout) -> list[_Fault]:
    faults = [_Fault("(`_corrupt` IS NULL AND `r` IS NULL)", "the record is null")]
    if layout.keeps_whole:
        faults.append(_Fault("coalesce(NOT startswith(`whole`, '{'), false)", "no object"))
    for key in layout.key_sources:
        missing = f"(`_corrupt` IS NULL AND {quote('r', key)} IS NULL)"
        faults.append(_Fault(missing, f"{key}: a key must have a value"))
    for key, falsified in falsified_keys(layout).items():
        faults.append(_Fault(falsified, f"{key}: half of a letter"))
    for source in layout.filled:
        empty = f"coalesce({quote('r', source)} = '', false)"
        faults.append(_Fault(empty, f"{source}: an empty text, which would divide files as null"))
    return faults


class Unread(NamedTuple):
    """How to find why JSON's reader gave up on the record in ``raw``, where ``unread``.

    ``record`` and then ``together`` are expressions to be made first, one after the
    other; ``reasons`` is an array of texts.
    """

    record: tuple[str, ...]
    together: tuple[str, ...]
    reasons: str


@lru_cache(maxsize=_CACHED_LAYOUTS)
def unread_of(layout: Layout) -> Unread:
    """Return how to find which values are not of the structure that was asked for.

    Each becomes a variant first, because that alone keeps a string apart from what is in
    it, and is then read again by itself.
    """
    columns = [
        column
        for column in layout.columns
        if column.feed is Feed.PROPERTY and isinstance(column.type, Boolean | Struct | Array)
    ]
    unknown = f"array({literal(_UNREADABLE)})"
    if not columns:
        return Unread((), (), unknown)
    fields = ", ".join(f"{quote(column.source)} VARIANT" for column in columns)
    record = f"if(`unread`, {from_json('`raw`', fields)}, NULL) AS `_variants`"
    together, places = by_type(
        columns, _is_unreadable, "_unread", lambda source: f"to_json({quote('_variants', source)})"
    )
    found = _reasons(
        _Fault(places[c.source], f"{c.source}: not of the declared type {_shown(c.type)}")
        for c in columns
    )
    return Unread((record,), together, f"coalesce(nullif({found}, array()), {unknown})")


def _shown(type_: ColumnType) -> str:
    ddl = type_.ddl
    return ddl if len(ddl) <= _LONGEST_TYPE else f"{ddl[:_LONGEST_TYPE]}..."


def _is_unreadable(type_: ColumnType) -> str:
    alone = "concat('{\"c\":', `i`, '}')"
    read = from_json(alone, f"`c` {source_type(type_)}, `_corrupt` STRING")
    return f"{read}.`_corrupt` IS NOT NULL"


def _faults_inside(
    value: str, type_: ColumnType, path: str, depth: int = 0, *, cut: bool
) -> Iterator[_Fault]:
    if isinstance(type_, Struct):
        for field in type_.fields:
            if field.feed is Feed.PROPERTY:
                inner = f"{value}.{quote(field.source)}"
                place = f"{path}.{field.source}"
                yield from _faults_inside(inner, field.type, place, depth, cut=cut)
    elif isinstance(type_, Array):
        item = f"`i{depth}`"
        for fault in _faults_inside(item, type_.element, f"{path}[]", depth + 1, cut=cut):
            found = f"coalesce(exists({value}, {item} -> {fault.condition}), false)"
            yield _Fault(found, fault.reason)
    elif is_scalar(type_):
        condition = f"({value} IS NOT NULL AND ({strict(value, type_, cut=cut)}) IS NULL)"
        yield _Fault(condition, f"{path}: {_what_it_is_not(type_)}")


def _what_it_is_not(type_: ColumnType) -> str:
    if isinstance(type_, Integer):
        return f"no whole number of {type_.bits} bits"
    if isinstance(type_, Decimal):
        whole = type_.precision - type_.scale
        return f"no number of at most {whole} digits before and {type_.scale} after the point"
    return {
        Double: "no number, or one beyond the range of a double",
        Timestamp: _NO_DATE_TIME,
        LocalTimestamp: _NO_DATE_TIME,
        Date: "no date (YYYY-MM-DD, years 0001 to 9999)",
        Binary: "no base64",
    }[type(type_)]
