"""Quarantine tables, which store records with values that do not fit the columns of a table.

A record is stored unchanged, with all errors and its position in the input, so that it can be
loaded later. `target_spark.frames.conversion_errors` detects the errors, and
`target_spark.loader.batch_commit` commits the records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's users call it)

from tap_core.redaction import HIDDEN, clean_document, is_secret_name, redact, redact_line
from tap_core.redaction.row_values import show_value
from target_spark.columns import Array, Column, ColumnType, Integer, TableSchema, Text, Timestamp
from target_spark.tables.quarantine_summary import Reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "LONGEST_RECORD",
    "SCHEMA",
    "SHORT_RECORD",
    "find_example",
    "find_reasons",
    "get_values",
]

_COLUMNS: Final[Mapping[str, ColumnType]] = {
    "raw": Text(),
    "reasons": Array(Text()),
    "ordinal": Integer(),
    "extracted_at": Timestamp(),
    "quarantined_at": Timestamp(),
    "batch": Integer(),
    "run": Text(),
    "version": Integer(),
    "replay": Text(),
}
SCHEMA: Final = TableSchema(tuple(Column(name, name, type_) for name, type_ in _COLUMNS.items()))
"""The columns of quarantine tables. ``replay`` is the id of the last run that began to load the
record again, or null."""

_MOST_REASONS: Final = 100
"""Maximum number of different errors that are collected from one batch, most frequent first."""

LONGEST_RECORD: Final = 1 << 20
"""Maximum bytes of a record that is shown, or from which an example of a value is taken."""

SHORT_RECORD: Final = f"if(octet_length(`raw`) <= {LONGEST_RECORD}, `raw`, NULL) AS `raw`"
"""SQL expression for the column ``raw``, with null for longer records than `LONGEST_RECORD`."""

_LONGEST_EXAMPLE: Final = 80

_AFTER_PROPERTY: Final = re.compile(r"[:.\[]")
"""Pattern of the character after the property's name in an error text, such as ":" in "price: not a
number"."""


def get_values(batch: int, run: str) -> tuple[str, ...]:
    """Return the SQL expressions of the quarantine table's columns, in order.

    The expressions are evaluated on the DataFrame of quarantined rows that `SpoolFrame.bad`
    returns.

    Args:
        batch: The number of the commit.
        run: The id of the run.
    """
    computed = {
        "quarantined_at": "current_timestamp()",
        "batch": f"{batch}L",
        "run": f"'{run}'",
        "replay": "CAST(NULL AS STRING)",
    }
    return tuple(f"{computed.get(name, f'`{name}`')} AS `{name}`" for name in _COLUMNS)


def find_reasons(bad: DataFrame, table_schema: TableSchema) -> tuple[Reason, ...]:
    """Return the 100 most frequent errors in quarantined rows, each with an example value.

    Args:
        bad: The quarantined rows, as returned by `SpoolFrame.bad`.
        table_schema: The table schema of the rows.
    """
    rows = (
        bad.selectExpr("`ordinal`", SHORT_RECORD, "explode(`reasons`) AS `reason`")
        .groupBy("reason")
        .agg(F.count(F.lit(1)).alias("rows"), F.min_by("raw", "ordinal").alias("raw"))
        .orderBy(F.desc("rows"), "reason")
        .limit(_MOST_REASONS)
        .collect()
    )
    return tuple(
        Reason(row["reason"], row["rows"], find_example(row["raw"], row["reason"], table_schema))
        for row in rows
    )


def find_example(raw: str | None, reason: str, table_schema: TableSchema) -> str | None:
    """Return the value that caused a record's quarantine, redacted and shortened for a message.

    Return the record if the error is about the whole record. Return None if the record does not
    contain the value or is larger than 1 MiB.

    Args:
        raw: The record as JSON, or None if it is larger than 1 MiB.
        reason: The error text, such as "price: not a number". It starts with the name of a property
            unless it is about the whole record.
        table_schema: The table schema of the record.
    """
    if raw is None:
        return None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return _format_example(raw, raw)
    path = _find_value_path(reason, table_schema)
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    if any(map(is_secret_name, path)):
        return HIDDEN
    return _format_example(value, json.dumps(clean_document(value, redact), ensure_ascii=False))


def _find_value_path(reason: str, table_schema: TableSchema) -> tuple[str, ...]:
    """Return the path of the value that an error text is about; ``()`` for the whole record.

    Example: "price: not a number" -> ``("price",)``.
    """
    columns = [column for column in table_schema.columns if _mentions(reason, column.source)]
    if not columns:
        return ()
    column = max(columns, key=lambda column: len(column.source))
    return tuple(column.path or (column.source,))


def _mentions(reason: str, source: str) -> bool:
    is_prefix = bool(source) and reason.startswith(source)
    return is_prefix and _AFTER_PROPERTY.match(reason, len(source)) is not None


def _format_example(value: Any, text: str) -> str:
    clean = redact_line(text)
    cut = clean if len(clean) <= _LONGEST_EXAMPLE else f"{clean[:_LONGEST_EXAMPLE]}..."
    return show_value(value, cut)
