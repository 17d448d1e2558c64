"""SQL that finds rows with values that do not fit their columns, and describes the errors.

A value is an error if it is not null, but the SQL of `target_spark.frames.sql_casts` converts it to
null. Errors inside structs and arrays are reported with their path in the record. If Spark's JSON
reader rejects a record, it does not report the value that failed, so each boolean, struct and array
is parsed again separately.

For Airbyte streams, which keep rows with errors, an invalid value becomes null and is listed in the
`changes` of the row's metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from target_spark.columns import (
    Array,
    Binary,
    ColumnSource,
    ColumnType,
    Date,
    Decimal,
    Double,
    Integer,
    LocalTimestamp,
    Struct,
    TableSchema,
    Timestamp,
)
from target_spark.frames.airbyte_meta import UNCASTABLE, UNREADABLE, change_entries, changes_in_json
from target_spark.frames.json_reader import variants_from_json
from target_spark.frames.record_repair import is_unreadable, structured_columns
from target_spark.frames.sql_casts import exact_cast, is_scalar
from target_spark.frames.sql_plan import (
    build_arrays_by_type,
    build_key_checks,
    build_partition_null_checks,
    converted_columns,
    key_values,
    source_expression,
)
from target_spark.tables.identifiers import quote, sql_literal

__all__ = [
    "MISSING_KEY",
    "ErrorColumns",
    "UnparsedReasons",
    "build_error_columns",
    "build_unparsed_reasons",
    "describe_expected_type",
    "describe_wrong_structure",
]

MISSING_KEY = "a key must have a value"
"""Error text for a key that is null or missing."""

_CACHED_SCHEMAS = 64

_NO_DATE_TIME = "not a date-time (RFC 3339, to the microsecond, years 0001 to 9999)"

_LONGEST_TYPE = 120
"""Maximum length of a column type in an error text. A longer type is cut off with ``...``."""

_UNKNOWN_REASON = "the record does not have the structure that the schema declares"

_NO_FAULTS = "CAST(array() AS ARRAY<STRUCT<`path`: STRING, `why`: STRING>>)"


class ErrorColumns(NamedTuple):
    """SQL expressions that find and describe the invalid values of a row.

    Attributes:
        precomputed: Definitions of helper columns for the other expressions.
        is_bad: A condition that is true if the row must be quarantined.
        reasons: An array of texts that describe the errors.
        changes: A JSON list with an Airbyte change entry for each value that became null. None if
            every row with an error is quarantined.
    """

    precomputed: tuple[str, ...]
    is_bad: str
    reasons: str
    changes: str | None


class _Fault(NamedTuple):
    """SQL that detects a value that does not fit its column, with the text of the error.

    Attributes:
        condition: The SQL condition, which is true if the value does not fit. It is never null.
        path: The path of the value inside its column, such as ``.address.zip``.
        why: The error text, such as "not base64".
    """

    condition: str
    path: str
    why: str


@lru_cache(maxsize=_CACHED_SCHEMAS)
def build_error_columns(table_schema: TableSchema) -> ErrorColumns:
    """Return SQL that finds values that do not fit their columns, and describes the errors."""
    columns = converted_columns(table_schema)
    precomputed, fault_arrays = build_arrays_by_type(
        columns,
        partial(_build_fault_array, truncate=table_schema.truncate_timestamps),
        "_faults",
        source_expression,
    )
    checked = table_schema.must_fit if table_schema.nulls_invalid_values else fault_arrays
    has_faults = [
        f"size({faults}) > 0" for source, faults in fault_arrays.items() if source in checked
    ]
    value_reasons = [
        f"transform({faults}, `f` -> concat({sql_literal(source)}, `f`.`path`, ': ', `f`.`why`))"
        for source, faults in fault_arrays.items()
    ]
    line_errors = _find_line_errors(table_schema)
    conditions = ["`_corrupt` IS NOT NULL", *line_errors.values(), *has_faults]
    cases = ", ".join(f"CASE WHEN {condition} THEN 1 END" for condition in conditions)
    reasons = f"concat({', '.join((_build_reasons_sql(line_errors), *value_reasons))})"
    changes = _build_changes(fault_arrays) if table_schema.nulls_invalid_values else None
    return ErrorColumns(precomputed, f"(coalesce({cases}) IS NOT NULL)", reasons, changes)


def _build_changes(fault_arrays: Mapping[str, str]) -> str:
    value_changes = (
        change_entries(faults, f"concat({sql_literal(source)}, `f`.`path`)", UNCASTABLE)
        for source, faults in fault_arrays.items()
    )
    return changes_in_json([change_entries("`_nulled`", "`f`", UNREADABLE), *value_changes])


def _build_fault_array(type_: ColumnType, *, truncate: bool) -> str:
    """Return the SQL of an array with the path and text of each error in a value.

    The SQL reads the value from the column ``i``. If ``truncate`` is false, a date-time with more
    digits than microseconds is an error.
    """
    cases = ", ".join(
        f"CASE WHEN {fault.condition}"
        f" THEN named_struct('path', {sql_literal(fault.path)},"
        f" 'why', {sql_literal(fault.why)}) END"
        for fault in _find_faults("`i`", type_, "", truncate=truncate)
    )
    return f"array_compact(array({cases}))" if cases else _NO_FAULTS


def _build_reasons_sql(faults: Mapping[str, str]) -> str:
    """Return the SQL of an array with the texts of the errors that a row has.

    ``faults`` maps each error text to a SQL condition that is true if the row has the error.
    """
    cases = (
        f"CASE WHEN {condition} THEN {sql_literal(reason)} END"
        for reason, condition in faults.items()
    )
    return f"array_compact(array({', '.join(cases)}))"


def _find_line_errors(table_schema: TableSchema) -> dict[str, str]:
    """Return the SQL conditions that always quarantine a row, by error text.

    Examples are a null record, a missing key, and an empty string in a partition column. Streams
    from Airbyte, which set other invalid values to null, also quarantine these rows.
    """
    faults = {"the record is null": "(`_corrupt` IS NULL AND `r` IS NULL)"}
    if table_schema.keeps_whole:
        faults["not an object"] = "coalesce(NOT startswith(`whole`, '{'), false)"
    for key, value in key_values(table_schema).items():
        faults[f"{key}: {MISSING_KEY}"] = f"(`_corrupt` IS NULL AND {value} IS NULL)"
    for key, corrupted in build_key_checks(table_schema).items():
        faults[f"{key}: an unpaired surrogate"] = corrupted
    return faults | build_partition_null_checks(table_schema)


class UnparsedReasons(NamedTuple):
    """SQL expressions that explain why Spark's JSON reader could not parse a record.

    The input has two columns: ``raw`` (the record as text) and ``unread`` (true if the reader could
    not parse the record). The caller adds the columns of ``record``, then those of ``precomputed``.

    Attributes:
        record: Columns with the parsed record, each as ``expression AS name``.
        precomputed: Columns that are computed from those of ``record``, in the same form.
        reasons: Expression for an array of texts that describe the errors.
    """

    record: tuple[str, ...]
    precomputed: tuple[str, ...]
    reasons: str


@lru_cache(maxsize=_CACHED_SCHEMAS)
def build_unparsed_reasons(table_schema: TableSchema) -> UnparsedReasons:
    """Return the SQL that names the values that made Spark's JSON reader reject a record.

    An example is a string in a column whose declared type is a struct.
    """
    # Values are parsed as variants first, because a variant distinguishes the string "5" from 5.
    columns = structured_columns(table_schema)
    unknown = f"array({sql_literal(_UNKNOWN_REASON)})"
    if not columns:
        return UnparsedReasons((), (), unknown)
    fields = ", ".join(f"{quote(column.source)} VARIANT" for column in columns)
    record = f"if(`unread`, {variants_from_json('`raw`', fields)}, NULL) AS `_variants`"
    precomputed, conditions = build_arrays_by_type(
        columns, is_unreadable, "_unread", lambda c: f"to_json({quote('_variants', c.source)})"
    )
    reasons = _build_reasons_sql(
        {f"{c.source}: {describe_wrong_structure(c.type)}": conditions[c.source] for c in columns}
    )
    return UnparsedReasons(
        (record,), precomputed, f"coalesce(nullif({reasons}, array()), {unknown})"
    )


def _find_faults(
    value: str, type_: ColumnType, path: str, depth: int = 0, *, truncate: bool
) -> Iterator[_Fault]:
    """Yield the possible faults of a value: one for a scalar, or one for each scalar inside it.

    ``path`` is the path of the value inside its column. ``depth`` is the number of enclosing SQL
    lambda functions. It is part of the argument names, to make them unique.
    """
    if isinstance(type_, Struct):
        for field in type_.fields:
            if field.feed is ColumnSource.PROPERTY:
                inner = f"{value}.{quote(field.source)}"
                inner_path = f"{path}.{field.source}"
                yield from _find_faults(inner, field.type, inner_path, depth, truncate=truncate)
    elif isinstance(type_, Array):
        item = f"`i{depth}`"
        for fault in _find_faults(item, type_.element, f"{path}[]", depth + 1, truncate=truncate):
            any_item = f"coalesce(exists({value}, {item} -> {fault.condition}), false)"
            yield _Fault(any_item, fault.path, fault.why)
    elif is_scalar(type_):
        condition = (
            f"({value} IS NOT NULL AND ({exact_cast(value, type_, truncate=truncate)}) IS NULL)"
        )
        yield _Fault(condition, path, describe_expected_type(type_))


def describe_wrong_structure(type_: ColumnType) -> str:
    """Return the error text for a value whose JSON type or structure does not fit a column type."""
    ddl = type_.ddl if len(type_.ddl) <= _LONGEST_TYPE else f"{type_.ddl[:_LONGEST_TYPE]}..."
    return f"not of the declared type {ddl}"


def describe_expected_type(type_: ColumnType) -> str:
    """Return the error text for a value that does not fit a column type.

    An example is "not base64" for a binary column.
    """
    if isinstance(type_, Integer):
        return f"not an integer of {type_.bits} bits"
    if isinstance(type_, Decimal):
        digits = type_.precision - type_.scale
        return f"not a number of at most {digits} digits before and {type_.scale} after the point"
    return {
        Double: "not a number, or beyond the range of a double",
        Timestamp: _NO_DATE_TIME,
        LocalTimestamp: _NO_DATE_TIME,
        Date: "not a date (YYYY-MM-DD, years 0001 to 9999)",
        Binary: "not base64",
    }[type(type_)]
