"""SQL expressions that convert parsed JSON records to the columns of a table schema.

There are two sets of expressions, called plans, for a table schema:

- fast: converts only values in the most common form, with one expression per column. Any other
  value fails the Spark job, which is then repeated with the tolerant plan;
- tolerant: converts all valid forms, such as numbers in quotes. All values of one type are
  converted together, as one array per type, because Spark compiles each expression and a wide table
  may have thousands of columns.

The fast plan also uses arrays if a table has many columns. The SQL refers to the columns of
`json_reader.read_lines`, and to ``whole`` (the record as text, if the table stores it) and
``_inside`` (the values of nested keys).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias

from target_spark.columns import (
    DELETED_AT,
    EXTRACTED_AT,
    GENERATION,
    IS_CURRENT,
    META,
    METADATA_COLUMNS,
    PARTITION_NULLS,
    RAW_ID,
    TABLE_VERSION,
    VALID_FROM,
    VALID_TO,
    Array,
    Column,
    ColumnSource,
    ColumnType,
    LocalTimestamp,
    Struct,
    TableSchema,
    Timestamp,
)
from target_spark.frames.airbyte_meta import build_meta, get_extracted_at, raw_id
from target_spark.frames.sql_casts import exact_cast, fast_cast, has_no_timezone, is_converted
from target_spark.tables.identifiers import quote, sql_literal

__all__ = [
    "BAD_ROWS_MARKER",
    "SEQUENCE_STEP",
    "SelectPlan",
    "build_arrays_by_type",
    "build_key_checks",
    "build_partition_null_checks",
    "build_row_check",
    "build_timezone_counts",
    "converted_columns",
    "fast_plan",
    "key_values",
    "source_expression",
    "tolerant_plan",
]

BAD_ROWS_MARKER = "BAD_ROWS"
"""Text in the error of a Spark job that failed because a row does not fit its schema."""

_CACHED_SCHEMAS = 64

_MAX_SEPARATE_EXPRESSIONS = 48
"""Maximum number of columns to convert with one SQL expression per column.

With more columns, the columns of one type share an expression, because Spark compiles each one.
"""

SEQUENCE_STEP = 2**20
"""Factor in ``_sdc_sequence``. The value of this column is the start of the run in milliseconds
times the factor, plus the record's position in the input. Values of later runs are larger, unless a
run has more records than the factor for each millisecond until the next run starts."""

_UNPAIRED_SURROGATE = (
    r"r'\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]..'"
)
"""SQL regular expression for the JSON escape of an unpaired surrogate, such as a single
``\\ud800``."""

_Convert: TypeAlias = Callable[[str, ColumnType], str]


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """SQL expressions that convert parsed JSON records to table rows.

    Attributes:
        precomputed: Definitions of helper columns that ``values`` uses.
        values: The SQL expression of each table column, in table order. Columns that the loader
            does not fill are left out.
    """

    precomputed: tuple[str, ...]
    values: tuple[str, ...]


@lru_cache(maxsize=_CACHED_SCHEMAS)
def fast_plan(table_schema: TableSchema) -> SelectPlan:
    """Return the SQL that converts values in the most common form of their type.

    Any other value, such as a number in quotes, fails the Spark job with `BAD_ROWS_MARKER`. The
    caller then uses `tolerant_plan`.
    """
    is_wide = len(converted_columns(table_schema)) > _MAX_SEPARATE_EXPRESSIONS
    truncate = table_schema.truncate_timestamps
    convert = partial(_cast_or_fail, fast_cast, truncate=truncate)
    convert_nested_keys = partial(_cast_or_fail, exact_cast, truncate=truncate)
    return _build_plan(table_schema, convert, convert_nested_keys, in_groups=is_wide)


@lru_cache(maxsize=_CACHED_SCHEMAS)
def tolerant_plan(table_schema: TableSchema) -> SelectPlan:
    """Return the SQL that converts values in all valid forms, such as numbers in quotes.

    A value that cannot be converted exactly becomes null.
    """
    convert = partial(exact_cast, truncate=table_schema.truncate_timestamps)
    changes = "`_changes`" if table_schema.nulls_invalid_values else None
    return _build_plan(table_schema, convert, convert, in_groups=True, changes=changes)


def _cast_or_fail(
    cast: Callable[..., str], value: str, type_: ColumnType, *, truncate: bool
) -> str:
    converted = cast(value, type_, truncate=truncate)
    if converted == value:
        return value
    return f"coalesce({converted}, assert_true({value} IS NULL, '{BAD_ROWS_MARKER}'))"


def build_row_check(table_schema: TableSchema) -> str:
    """Return a SQL condition that is true for a valid row, and fails the Spark job for other rows.

    A row is valid if its record could be parsed, has a value for each primary key, and has no text
    in a partition column that would be stored as null. Other values are not checked.
    """
    conditions = ["`_corrupt` IS NULL", "`r` IS NOT NULL"]
    conditions += (f"{value} IS NOT NULL" for value in key_values(table_schema).values())
    conditions += (f"NOT {nulled}" for nulled in build_partition_null_checks(table_schema).values())
    conditions += ["startswith(`whole`, '{')"] if table_schema.keeps_whole else []
    conditions += (f"NOT {corrupted}" for corrupted in build_key_checks(table_schema).values())
    return f"if({' AND '.join(conditions)}, true, raise_error('{BAD_ROWS_MARKER}'))"


def key_values(table_schema: TableSchema) -> dict[str, str]:
    """Return the SQL that reads each primary key from the parsed JSON record, by property name."""
    return _source_expressions(table_schema, table_schema.key_sources)


def build_partition_null_checks(table_schema: TableSchema) -> dict[str, str]:
    """Return SQL conditions that are true if a partition column would store a text as null.

    The keys of the result describe the property and the text, for error messages.
    """
    return {
        f"{source}: {description}, which a partition stores as null": (
            f"coalesce({value} = {sql_literal(text)}, false)"
        )
        for source, value in _source_expressions(table_schema, table_schema.text_partitions).items()
        for text, description in PARTITION_NULLS.items()
    }


def _source_expressions(table_schema: TableSchema, sources: Iterable[str]) -> dict[str, str]:
    columns = {
        column.source: column
        for column in table_schema.columns
        if column.feed is ColumnSource.PROPERTY
    }
    return {source: source_expression(columns[source]) for source in sources}


def build_key_checks(table_schema: TableSchema) -> dict[str, str]:
    """Return SQL conditions that are true if a key may be corrupted, by primary key property.

    If a record is read as text, Spark replaces an unpaired surrogate (an invalid Unicode escape) by
    a question mark, so two different keys may become equal. If records are not read as text, the
    result is empty.
    """
    if not table_schema.keeps_whole:
        return {}
    return {
        key: f"(coalesce(contains({quote('r', key)}, '?'), false)"
        f" AND `whole` RLIKE {_UNPAIRED_SURROGATE})"
        for key in table_schema.key_sources
    }


def converted_columns(table_schema: TableSchema) -> list[Column]:
    """Return the columns whose values must be converted after JSON parsing, such as dates.

    Booleans and text, which need no conversion, are left out.
    """
    columns = [column for column in table_schema.columns if column.feed is ColumnSource.PROPERTY]
    if table_schema.has_deletion_time:
        columns.append(Column(DELETED_AT, DELETED_AT, METADATA_COLUMNS[DELETED_AT]))
    return [column for column in columns if is_converted(column.type)]


def build_arrays_by_type(
    columns: Iterable[Column],
    build_sql: Callable[[ColumnType], str],
    name: str,
    get_value: Callable[[Column], str],
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return SQL that converts the values of all columns of the same type together, as one array.

    Spark compiles each expression, so one expression per type is faster than one per column.

    Args:
        columns: The columns to convert.
        build_sql: A function that returns the SQL to convert a value of a given type. In the SQL,
            the value is the column ``i``.
        name: The prefix of the names of the array columns.
        get_value: A function that returns the SQL of a column's value before the conversion.

    Returns:
        A tuple of two items: the definitions of the array columns, and the SQL of each converted
        value, by property.
    """
    groups: dict[ColumnType, list[Column]] = {}
    for column in columns:
        groups.setdefault(column.type, []).append(column)
    arrays: list[str] = []
    items: dict[str, str] = {}
    for number, (type_, members) in enumerate(groups.items()):
        values = ", ".join(map(get_value, members))
        arrays.append(f"transform(array({values}), `i` -> {build_sql(type_)}) AS `{name}{number}`")
        items |= {
            member.source: f"`{name}{number}`[{position}]"
            for position, member in enumerate(members)
        }
    return tuple(arrays), items


def source_expression(column: Column) -> str:
    """Return the SQL of a column's value in the parsed JSON record, before its conversion."""
    return quote("_inside" if column.path else "r", column.source)


def _build_plan(
    table_schema: TableSchema,
    convert: _Convert,
    convert_nested_keys: _Convert,
    *,
    in_groups: bool,
    changes: str | None = None,
) -> SelectPlan:
    """Return the plan for a table schema.

    Args:
        table_schema: The table schema.
        convert: Function that returns the SQL to convert a scalar.
        convert_nested_keys: The same function for the values of nested keys.
        in_groups: True to convert all columns of a type together, False to convert each alone.
        changes: The SQL of the changes that `build_meta` reports; None for no changes.
    """
    precomputed: tuple[str, ...] = ()
    converted: dict[str, str] = {}
    if in_groups:
        precomputed, converted = build_arrays_by_type(
            (column for column in converted_columns(table_schema) if not column.path),
            lambda type_: _convert_value("`i`", type_, convert),
            "_values",
            source_expression,
        )
    converted |= {
        column.source: _convert_value(source_expression(column), column.type, convert_nested_keys)
        for column in table_schema.columns
        if column.path
    }
    values = tuple(
        f"{_build_column_sql(column, convert, converted, changes)} AS {quote(column.name)}"
        for column in table_schema.columns
        if column.feed is not ColumnSource.NOTHING
    )
    return SelectPlan(precomputed, values)


def _build_column_sql(
    column: Column, convert: _Convert, converted: Mapping[str, str], changes: str | None
) -> str:
    if column.feed is ColumnSource.WHOLE:
        return quote("whole")
    if column.feed is ColumnSource.EMPTIED:
        return f"CAST(NULL AS {column.type.ddl})"
    if column.feed is ColumnSource.METADATA and column.source == META:
        return build_meta(changes)
    if column.feed is ColumnSource.METADATA and column.source != DELETED_AT:
        return _build_metadata_sql(column.source)
    if column.source in converted:
        return converted[column.source]
    return _convert_value(source_expression(column), column.type, convert)


def _build_metadata_sql(name: str) -> str:
    time = exact_cast("`t`", Timestamp(), truncate=True)
    return {
        RAW_ID: raw_id(),
        EXTRACTED_AT: get_extracted_at(),
        GENERATION: "`v`",
        "_sdc_extracted_at": f"if(`t` IS NULL, `_received_at`, {time})",
        "_sdc_received_at": "`_received_at`",
        "_sdc_batched_at": "`_batched_at`",
        "_sdc_sequence": f"`_started_at` * {SEQUENCE_STEP}L + `n`",
        TABLE_VERSION: "`v`",
        "_sdc_sync_started_at": "`_started_at`",
        VALID_FROM: f"coalesce({time}, `_received_at`)",
        VALID_TO: "CAST(NULL AS TIMESTAMP)",
        IS_CURRENT: "true",
    }[name]


def _convert_value(value: str, type_: ColumnType, convert: _Convert, depth: int = 0) -> str:
    """Return the SQL that converts a value, or the scalars inside a struct or an array.

    ``convert`` is a function that returns the SQL to convert a scalar. ``depth`` is the number of
    enclosing SQL lambda functions. It is part of the argument names, to make them unique.
    """
    if not is_converted(type_):
        return value
    if isinstance(type_, Struct):
        fields = ", ".join(_convert_field(value, field, convert, depth) for field in type_.fields)
        return f"if({value} IS NULL, NULL, struct({fields}))"
    if isinstance(type_, Array):
        item = f"`i{depth}`"
        inner = _convert_value(item, type_.element, convert, depth + 1)
        return value if inner == item else f"transform({value}, {item} -> {inner})"
    return convert(value, type_)


def _convert_field(value: str, field: Column, convert: _Convert, depth: int) -> str:
    if field.feed is not ColumnSource.PROPERTY:
        return f"CAST(NULL AS {field.type.ddl}) AS {quote(field.name)}"
    inner = _convert_value(f"{value}.{quote(field.source)}", field.type, convert, depth)
    return f"{inner} AS {quote(field.name)}"


@lru_cache(maxsize=_CACHED_SCHEMAS)
def build_timezone_counts(table_schema: TableSchema) -> Mapping[str, str]:
    """Return SQL that counts the date-times without a time zone in one row, by column name.

    The number may exceed 1 in a column of arrays. Columns without date-times are left out.
    """
    counted = {}
    for column in table_schema.columns:
        if column.feed is ColumnSource.PROPERTY:
            counts = list(_count_zoneless(source_expression(column), column.type))
            if counts:
                counted[column.name] = " + ".join(counts)
    return counted


def _count_zoneless(value: str, type_: ColumnType, depth: int = 0) -> Iterator[str]:
    """Yield SQL expressions that count the date-times without a time zone in parts of a value.

    The sum of their results is the count for the value. ``depth`` is the number of enclosing SQL
    lambda functions. It is part of the argument names, to make them unique.
    """
    if isinstance(type_, Timestamp | LocalTimestamp):
        yield f"if({has_no_timezone(value)}, 1, 0)"
    elif isinstance(type_, Struct):
        for field in type_.fields:
            if field.feed is ColumnSource.PROPERTY:
                yield from _count_zoneless(f"{value}.{quote(field.source)}", field.type, depth)
    elif isinstance(type_, Array):
        item = f"`i{depth}`"
        inner = " + ".join(_count_zoneless(item, type_.element, depth + 1))
        if inner:
            total = f"aggregate({value}, 0, (`s{depth}`, {item}) -> `s{depth}` + {inner})"
            yield f"coalesce({total}, 0)"
