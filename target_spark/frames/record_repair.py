"""SQL that replaces values with a wrong structure by null, such as a string instead of an object.

If a record contains such a value, Spark's JSON reader rejects the whole record without naming the
value. So each boolean, struct and array is parsed again separately. If the rest of the record is
valid, the values that cannot be parsed become null, and the column `_nulled` lists their
properties. All other rejected records stay rejected.
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
from target_spark.frames.sql_plan import build_arrays_by_type
from target_spark.tables.identifiers import quote, sql_literal

__all__ = ["RepairPlan", "build_repair", "is_unreadable", "structured_columns"]

_NO_PROPERTIES: Final = "CAST(array() AS ARRAY<STRING>)"


class RepairPlan(NamedTuple):
    """SQL that replaces values of a wrong structure, such as a string for an object, by null.

    Attributes:
        steps: Groups of definitions of helper columns. The caller adds them to the rows group by
            group, because a group may use columns of earlier groups.
        replacements: Definitions of the columns that finally replace ``r`` (the record) and
            ``_corrupt`` (the line, if it could not be parsed).
    """

    steps: tuple[tuple[str, ...], ...]
    replacements: tuple[str, ...]


def structured_columns(table_schema: TableSchema) -> list[Column]:
    """Return the columns of type boolean, struct or array that are filled from properties.

    Spark's JSON reader rejects a whole record only for a wrong value in such a column, because it
    reads all other values as text.
    """
    return [
        column
        for column in table_schema.columns
        if column.feed is ColumnSource.PROPERTY
        and not column.path
        and isinstance(column.type, Boolean | Struct | Array)
    ]


def is_unreadable(type_: ColumnType) -> str:
    """Return a SQL condition that is true if a JSON value cannot be parsed as a column type.

    The SQL reads the value, as JSON text, from the column ``i``.
    """
    document = "concat('{\"c\":', `i`, '}')"
    parsed = from_json(document, f"`c` {source_type(type_)}, `_corrupt` STRING")
    return f"{parsed}.`_corrupt` IS NOT NULL"


def build_repair(table_schema: TableSchema) -> RepairPlan:
    """Return the SQL that replaces values with a wrong structure, such as a string for an object.

    The values become null. This is for Airbyte streams, which keep rows with invalid values.
    """
    columns = structured_columns(table_schema)
    if not columns or table_schema.keeps_whole:
        return RepairPlan(((f"{_NO_PROPERTIES} AS `_nulled`",),), ())
    # Each value becomes a variant first: only a variant distinguishes a string from its content.
    variants = ", ".join(f"{quote(column.source)}: VARIANT" for column in columns)
    reparsed = variants_from_json("`_corrupt`", f"`r` STRUCT<{variants}>, `_corrupt` STRING")
    arrays, is_unfit = build_arrays_by_type(
        columns,
        is_unreadable,
        "_unfit",
        lambda column: f"to_json(`_again`.`r`.{quote(column.source)})",
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
    nulled = (
        f"if({' AND '.join(conditions)}, array_compact(array({unfit_sources})), {_NO_PROPERTIES})"
    )
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


def _build_column_sql(name: str, is_unfit: dict[str, str]) -> str:
    value = quote("r", name)
    if name in is_unfit:
        value = f"if(coalesce({is_unfit[name]}, false), NULL, {value})"
    return f"{value} AS {quote(name)}"
