"""Cast, deduplication and MERGE of the rows of Fivetran's batch files.

The rows are a DataFrame of `target_spark.fivetran.batch_frame`, with the columns ``OP`` (the kind
of file) and ``ORDINAL`` (the order of the rows), and flags that mark unmodified values. One MERGE
applies a whole batch, so that the batch is applied completely or not at all, and repeating it
changes nothing. A value that does not fit the type of its column fails the batch; it is never
rounded or truncated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import PARTITION_NULLS
from target_spark.errors import TableError
from target_spark.fivetran.batch_request import FileKind
from target_spark.fivetran.existing_table import ExistingTable, ensure_not_replaced
from target_spark.fivetran.row_reader import OP, ORDINAL, unmodified_flag
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.type_conversion import get_conversion
from target_spark.tables.identifiers import quote
from target_spark.writers.base import MergeKeys
from target_spark.writers.deduplication import latest_by_key
from target_spark.writers.delta import writer as delta
from target_spark.writers.delta.catalog import has_files
from target_spark.writers.delta.writer import MATERIALIZE_SOURCE_CONF
from target_spark.writers.iceberg import writer as iceberg
from target_spark.writers.iceberg.snapshot_reader import prepare_merge, snapshots
from target_spark.writers.iceberg.writer import FANOUT_OPTIONS, find_empty_snapshot
from target_spark.writers.merge_statement import (
    Matched,
    Merge,
    match_keys,
    source_column,
    table_column,
)
from target_spark.writers.sql_statements import spark_conf

__all__ = [
    "append_if_empty",
    "append_rows",
    "build_merge",
    "cast_to_table",
    "collapse_by_key",
    "column_ref",
    "find_cast_failure",
    "merge_rows",
    "persisted",
]

_BATCH_PROPERTY: Final = "target-spark-fivetran-batch"
"""Property of a commit that stores the identity of its batch, for a table without a key."""

_HISTORY_LIMIT: Final = 20
"""Number of a Delta table's latest commits that are searched for a removal of rows."""

_KEEPS_ROWS: Final = (
    "(operation = 'WRITE' AND operationParameters['mode'] = 'Append')"
    " OR operation IN ('ADD COLUMNS', 'ADD CONSTRAINT', 'CHANGE COLUMN', 'CHANGE COLUMNS',"
    " 'CLUSTER BY', 'COMPUTE STATS', 'CREATE TABLE', 'DROP COLUMNS', 'DROP CONSTRAINT',"
    " 'OPTIMIZE', 'RENAME COLUMN', 'SET TBLPROPERTIES', 'UNSET TBLPROPERTIES', 'UPGRADE PROTOCOL')"
    " OR operation LIKE 'VACUUM%'"
)
"""Condition for the commits of a Delta table that neither updated nor removed rows."""

_CAST_FAILURE: Final = "target-spark cast failure: "
_FAILED_COLUMN: Final = re.compile(re.escape(_CAST_FAILURE) + r"(\d+)")
"""Regular expression for the error of a value that does not fit its column. It captures the index
of the column."""


def column_ref(column: DestinationColumn) -> Expression:
    """Return the Spark expression that refers to a destination column by its name in the table."""
    return F.col(quote(column.column))


def cast_to_table(
    rows: DataFrame, existing: ExistingTable, fivetran_schema: FivetranSchema
) -> DataFrame:
    """Cast the rows of a batch of Fivetran to the column types of a table.

    If a value does not fit its column's type, or would be stored as null in a partition column, a
    Spark action on the result fails, and `find_cast_failure` explains the error.
    """
    converted = {}
    for number, column in enumerate(fivetran_schema.columns):
        old = rows.schema[column.column].dataType.simpleString()
        new = existing.types[column.column]
        failure = F.raise_error(F.lit(f"{_CAST_FAILURE}{number}")).cast(new)
        if old != new.lower():
            conversion = get_conversion(quote(column.column), old, new)
            converted[column.column] = F.when(F.expr(conversion.lost), failure).otherwise(
                F.expr(conversion.value).cast(new)
            )
        if _is_text_partition(column, existing):
            value = converted.get(column.column, column_ref(column))
            is_nulled = value.isin(*PARTITION_NULLS)
            converted[column.column] = F.when(is_nulled, failure).otherwise(value)
    return rows.withColumns(converted) if converted else rows


def _is_text_partition(column: DestinationColumn, existing: ExistingTable) -> bool:
    is_text = existing.types[column.column].lower() == "string"
    return is_text and column.column in existing.partition_columns


def find_cast_failure(
    error: BaseException, name: str, existing: ExistingTable, fivetran_schema: FivetranSchema
) -> TableError | None:
    """Return an error that names the column whose values `cast_to_table` could not cast.

    Return None if ``error`` has another cause.

    Args:
        error: The error of a Spark action on the result of `cast_to_table`.
        name: The name of the table, for the message.
        existing: The table.
        fivetran_schema: The columns of the batch.
    """
    match = _FAILED_COLUMN.search(str(error))
    if match is None:
        return None
    column = fivetran_schema.columns[int(match[1])]
    if _is_text_partition(column, existing):
        return TableError(
            f"Table {name} is partitioned by column {column.name}, and the batch has a value of it"
            f" that Delta stores as null in partitions: {' or '.join(PARTITION_NULLS.values())}."
            " Nothing was written. Remove the partitions, or drop the table and re-sync it."
        )
    return TableError(
        f"Column {column.name} of table {name} is {existing.types[column.column]}, and the batch"
        f" has values of {column.type.name} that it cannot hold. Nothing was written."
        " The type of the column must be changed (AlterTable) before such rows can be written;"
        " re-sync the table if another writer changed it."
    )


def collapse_by_key(
    rows: DataFrame, fivetran_schema: FivetranSchema, *, has_flags: bool
) -> DataFrame:
    """Combine all rows of a batch that have the same key into one row.

    The combined row has the same effect on the table as the single rows one after the other: first
    replacements, then updates, then deletions.

    Args:
        rows: The rows of the batch.
        fivetran_schema: The columns of the batch.
        has_flags: True if the rows have boolean columns that mark unmodified values. False if each
            row has all values; then the last row of a key is returned.
    """
    if not has_flags:
        return latest_by_key(
            rows, MergeKeys(tuple(key.column for key in fivetran_schema.keys), ORDINAL)
        )
    non_keys = fivetran_schema.non_key_columns
    # Until the select below, the column of a flag holds the struct with the last value.
    last = (_last_set_value(column).alias(unmodified_flag(column)) for column in non_keys)
    grouped = rows.groupBy(*map(column_ref, fivetran_schema.keys)).agg(
        _combined_kind().alias(OP), F.max(ORDINAL).alias(ORDINAL), *last
    )
    values = [(column, F.col(quote(unmodified_flag(column)))) for column in non_keys]
    return grouped.select(
        *(column_ref(key) for key in fivetran_schema.keys),
        *(value["is"].alias(column.column) for column, value in values),
        *(value.isNull().alias(unmodified_flag(column)) for column, value in values),
        OP,
        ORDINAL,
    )


def _last_set_value(column: DestinationColumn) -> Expression:
    """Return a Spark aggregate expression for the last value of a column in the rows of each key.

    Rows that do not change the column are ignored. The result is a struct with the value, which may
    be null. If no row of the key changes the column, the result itself is null.
    """
    is_set = ~F.col(quote(unmodified_flag(column)))
    value = F.struct(column_ref(column).alias("is"))
    return F.max_by(F.when(is_set, value), F.when(is_set, F.col(ORDINAL)))


def _combined_kind() -> Expression:
    """Return a Spark aggregate expression for the kind (`FileKind`) of a key's combined row.

    The kind is deletion if the key has a deletion row, else replacement if it has a replacement
    row, else update.
    """
    is_deleted = F.max(OP) == int(FileKind.DELETE)
    return F.when(is_deleted, F.max(OP)).otherwise(F.min(OP))


def append_rows(spark: SparkSession, rows: DataFrame, existing: ExistingTable, batch: str) -> None:
    """Append the rows of a batch to a table in one commit, unless the batch was appended before.

    The batch is appended again if a later commit, such as a Truncate, updated or removed rows. In a
    Delta table, only the last `_HISTORY_LIMIT` commits are searched for such a commit.
    Columns that are missing in the rows become null.

    Args:
        spark: The session.
        rows: The rows.
        existing: The table.
        batch: The identity of the batch, which the commit stores.
    """
    append = _append_to_iceberg if existing.format == "iceberg" else _append_to_delta
    complete = _add_missing_columns(rows, existing)
    with ensure_not_replaced(spark, existing):
        append(spark, complete, existing, f"{_BATCH_PROPERTY}:{batch}")


def _append_to_iceberg(
    spark: SparkSession, rows: DataFrame, existing: ExistingTable, batch: str
) -> None:
    for snapshot in snapshots(spark, existing.table):
        if snapshot.summary.get(_BATCH_PROPERTY) == batch:
            return
        if snapshot.summary.get("operation") in {"delete", "overwrite"}:
            break
    options = {f"snapshot-property.{_BATCH_PROPERTY}": batch, **FANOUT_OPTIONS}
    rows.writeTo(existing.ref).options(**options).append()


def _append_to_delta(
    spark: SparkSession, rows: DataFrame, existing: ExistingTable, batch: str
) -> None:
    history = spark.sql(f"DESCRIBE HISTORY {existing.ref} LIMIT {_HISTORY_LIMIT}")
    removals = history.where(f"NOT coalesce({_KEEPS_ROWS}, false)")
    removal = removals.orderBy(F.desc("version")).first()
    # With the transaction, Delta skips a batch that it has committed, however long ago, and reports
    # a conflict if a killed server commits the batch meanwhile.
    transaction = {"txnAppId": batch, "txnVersion": 0 if removal is None else removal["version"]}
    rows.writeTo(existing.ref).options(userMetadata=batch, **transaction).append()


def append_if_empty(spark: SparkSession, rows: DataFrame, existing: ExistingTable) -> bool:
    """Append rows to a table if it is empty; return True if the rows were appended.

    If another writer adds rows at the same time, the commit fails with a conflict error. The caller
    then tries again, and the table is no longer empty.
    """
    if existing.format == "iceberg":
        is_empty, empty_at = find_empty_snapshot(spark, existing.table)
        if is_empty:
            with ensure_not_replaced(spark, existing):
                iceberg.insert_first(
                    _add_missing_columns(rows, existing).writeTo(existing.ref), empty_at
                )
        return is_empty
    is_empty = not has_files(spark, existing.table)
    if is_empty:
        with ensure_not_replaced(spark, existing):
            delta.insert_first(spark, existing.table, _add_missing_columns(rows, existing))
    return is_empty


def _add_missing_columns(rows: DataFrame, existing: ExistingTable) -> DataFrame:
    present = set(rows.columns)
    return rows.select(
        *(
            F.col(quote(name)) if name in present else F.lit(None).cast(ddl).alias(name)
            for name, ddl in existing.types.items()
        )
    )


def build_merge(
    target: str, fivetran_schema: FivetranSchema, kinds: Collection[FileKind], *, has_flags: bool
) -> Merge:
    """Return the MERGE statement that applies a batch with one row per key to a table.

    Args:
        target: The SQL name of the table.
        fivetran_schema: The columns of the batch.
        kinds: The kinds of files in the batch, such as replace and delete files.
        has_flags: True if the rows have boolean columns that mark unmodified values; the table
            keeps its own values for these. False if each row has all values.
    """

    def build_value(column: DestinationColumn) -> str:
        value = source_column(column.column)
        if not has_flags:
            return value
        flag = source_column(unmodified_flag(column))
        return f"if({flag}, {table_column(target, column.column)}, {value})"

    matched = []
    if FileKind.DELETE in kinds:
        matched.append(Matched(None, _is_kind(FileKind.DELETE)))
    values = {column.column: build_value(column) for column in fivetran_schema.non_key_columns}
    if values and not {FileKind.REPLACE, FileKind.UPDATE}.isdisjoint(kinds):
        matched.append(Matched(values))
    on = match_keys(target, [key.column for key in fivetran_schema.keys])
    inserts = FileKind.REPLACE in kinds
    inserted = [column.column for column in fivetran_schema.columns] if inserts else []
    condition = _is_kind(FileKind.REPLACE) if len(kinds) > 1 else None
    return Merge(target, on, matched, inserted, condition)


def _is_kind(kind: FileKind) -> str:
    return f"{source_column(OP)} = {int(kind)}"


def merge_rows(spark: SparkSession, rows: DataFrame, merge: Merge, existing: ExistingTable) -> None:
    """Apply rows, at most one per key, to a table with a MERGE statement, in one commit.

    MERGE reads its source twice. To compute the rows only once, Delta Lake materializes them; for
    Iceberg they are persisted on disk.
    """
    if existing.format == "delta":
        with ensure_not_replaced(spark, existing), spark_conf(spark, MATERIALIZE_SOURCE_CONF):
            merge.run(rows)
    else:
        conf = prepare_merge(spark, merge.target)
        with (
            persisted(rows) as stored,
            ensure_not_replaced(spark, existing),
            spark_conf(spark, conf),
        ):
            merge.run(stored)


@contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """Context manager that stores a DataFrame on disk in Spark, to compute it only once."""
    stored = rows.persist(StorageLevel.DISK_ONLY)
    try:
        yield stored
    finally:
        stored.unpersist()
