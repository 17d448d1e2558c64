"""Repair of records with a value of another structure than declared: the value becomes null.

Pure functions that return SQL. For such a record the JSON reader reports only that it could not
parse it, and returns what it could. Each structured value is parsed again separately to find those
that fail. A record is repaired only if they are found and everything else in its line is correct:
exactly these values are null, and `` `_nulled` `` names their properties. All other lines remain
unparsed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from target_spark.columns import (
    Array,
    Boolean,
    Column,
    ColumnSource,
    ColumnType,
    Struct,
    TableSchema,
)
from target_spark.frames.json_reader import (
    from_json,
    record_fields,
    source_type,
    variants_from_json,
)
from target_spark.frames.sql_plan import by_type
from target_spark.tables.identifiers import quote, sql_literal

__all__ = ["RepairPlan", "build_repair", "is_unreadable", "structured_columns"]

_NOTHING: Final = "CAST(array() AS ARRAY<STRING>)"


class RepairPlan(NamedTuple):
    """SQL that replaces values with a wrong structure, such as a string for an object, by null.

    Attributes:
        steps: Groups of column definitions, to be added one group after the other. A group may use
            the columns of earlier groups.
        replaced: Definitions of columns that replace existing columns after all groups are added.
    """

    steps: tuple[tuple[str, ...], ...]
    replaced: tuple[str, ...]


def structured_columns(table_schema: TableSchema) -> list[Column]:
    """Return the columns with booleans, structs or arrays.

    Only in these columns can a wrong value make Spark's JSON reader reject the whole record.
    """
    return [
        column
        for column in table_schema.columns
        if column.feed is ColumnSource.PROPERTY
        and not column.path
        and isinstance(column.type, Boolean | Struct | Array)
    ]


def is_unreadable(type_: ColumnType) -> str:
    """Return the SQL condition that a JSON text cannot be parsed as a type.

    The SQL refers to the JSON text as `` `i` ``.
    """
    alone = "concat('{\"c\":', `i`, '}')"
    read = from_json(alone, f"`c` {source_type(type_)}, `_corrupt` STRING")
    return f"{read}.`_corrupt` IS NOT NULL"


def build_repair(table_schema: TableSchema) -> RepairPlan:
    """Return the SQL that replaces values with a wrong structure by null.

    It is used for streams of Airbyte, whose rows are kept even if some values do not fit.
    """
    columns = structured_columns(table_schema)
    if not columns or table_schema.keeps_whole:
        return RepairPlan(((f"{_NOTHING} AS `_nulled`",),), ())
    # Each value becomes a variant first: only a variant distinguishes a string from its content.
    fields = ", ".join(f"{quote(column.source)}: VARIANT" for column in columns)
    reparsed = variants_from_json("`_corrupt`", f"`r` STRUCT<{fields}>, `_corrupt` STRING")
    arrays, is_unfit = by_type(
        columns, is_unreadable, "_unfit", lambda column: f"to_json({_variant(column)})"
    )
    unfit_sources = ", ".join(
        f"CASE WHEN {is_unfit[column.source]} THEN {sql_literal(column.source)} END"
        for column in columns
    )
    conditions = ["`_again` IS NOT NULL", "`_again`.`_corrupt` IS NULL", "`r` IS NOT NULL"]
    conditions += (
        f"NOT coalesce({is_unfit[column.source]}, false)"
        for column in columns
        if column.source in table_schema.must_fit
    )
    nulled = f"if({' AND '.join(conditions)}, array_compact(array({unfit_sources})), {_NOTHING})"
    fields = ", ".join(_build_column_sql(name, is_unfit) for name in record_fields(table_schema))
    return RepairPlan(
        (
            (f"if(`_corrupt` IS NULL, NULL, {reparsed}) AS `_again`",),
            arrays,
            (f"{nulled} AS `_nulled`",),
        ),
        (
            f"if(size(`_nulled`) = 0, `r`, struct({fields})) AS `r`",
            "if(size(`_nulled`) = 0, `_corrupt`, NULL) AS `_corrupt`",
        ),
    )


def _variant(column: Column) -> str:
    return f"`_again`.`r`.{quote(column.source)}"


def _build_column_sql(name: str, is_unfit: dict[str, str]) -> str:
    value = quote("r", name)
    if name in is_unfit:
        value = f"if(coalesce({is_unfit[name]}, false), NULL, {value})"
    return f"{value} AS {quote(name)}"
