"""Choice of the operation that commits a batch, by the write mode of its stream.

The modes are append, upsert, overwrite and scd2. The writer of the table format performs the
operation; this module builds its arguments. Of several rows with the same key, an overwrite keeps
the newest, like an upsert.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import (
    CDC_DELETED_AT,
    DELETED_AT,
    GENERATION,
    HISTORY_COLUMNS,
    IS_CURRENT,
    META,
    METADATA_COLUMNS,
    ORDINAL,
    TABLE_VERSION,
    ColumnSource,
    TableSchema,
)
from target_spark.config.options import StreamOptions, WriteMode
from target_spark.errors import TableError, UnsupportedError
from target_spark.frames.airbyte_meta import meta_prefix
from target_spark.loader.commit_request import CommitRequest
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.identifiers import quote, sql_literal
from target_spark.tables.table import CommitStats, Table
from target_spark.writers import MergeKeys, Writer, latest_by_key
from target_spark.writers.base import VersionDelete
from target_spark.writers.deduplication import as_initial_rows, sort_rows
from target_spark.writers.delta.writer import DeltaWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "build_version_delete",
    "check_scd2_compatible",
    "find_distinct_key",
    "find_metadata_column",
    "format_key",
    "get_merge_keys",
    "has_other_versions",
    "keeps_rows_of_sync",
    "make_empty_frame",
    "select_write_operation",
]

logger = logging.getLogger(__name__)

_PYAIRBYTE_NUMBER: Final = 1
"""The number that PyAirbyte sends as generation and as id of every sync, which identifies none."""

_NEW: Final = "__target_spark_new"
"""Prefix of copies of a batch's columns, which are compared with those of the table."""

_KEPT: Final = (
    "Stream %s: the rows of table %s are kept, because an earlier attempt of this sync has loaded"
    " them"
)


def select_write_operation(
    writer: Writer,
    request: CommitRequest,
    table_schema: TableSchema,
    df: DataFrame,
    options: StreamOptions,
    rows: int,
    *,
    has_unique_keys: bool = False,
    keeps_rows: bool = False,
) -> Callable[[CommitMetadata], CommitStats]:
    """Return the function that commits a batch to its table in the stream's write mode.

    The returned function takes the commit metadata and returns the statistics of the commit.

    Args:
        writer: The writer of the table format.
        request: The commit request.
        table_schema: The table schema, with the column types of the existing table.
        df: The rows.
        options: The options that the user set for the stream.
        rows: The number of rows in ``df``.
        has_unique_keys: True if ``df`` holds the rows in memory and no two have the same key. False
            if this is not known.
        keeps_rows: True to keep the rows of the table in an overwrite (see `keeps_rows_of_sync`).
    """
    table = request.table
    keys = get_merge_keys(table_schema, request, options)
    if has_unique_keys:
        keys = replace(keys, unique_rows=rows)
    if request.mode is WriteMode.UPSERT:
        return lambda marker: writer.upsert(table, df, keys, marker)
    if request.mode is WriteMode.SCD2:
        return lambda marker: writer.history(table, df, keys, marker)
    if request.mode is WriteMode.OVERWRITE and keys.columns:
        newest = as_initial_rows(latest_by_key(df, keys), keys)
        return lambda marker: writer.replace(table, newest, marker)
    if keeps_rows and request.batches:
        all_rows = _add_kept_rows(writer, table, table_schema, df, options)
        sorted_rows = sort_rows(all_rows, keys.sort_by)
        return lambda marker: writer.replace(table, sorted_rows, marker)
    appends = keeps_rows or request.mode is WriteMode.APPEND
    write = writer.append if appends else writer.replace
    ordered = sort_rows(df.drop(ORDINAL), keys.sort_by)
    return lambda marker: write(table, ordered, marker, rows)


def _add_kept_rows(
    writer: Writer, table: Table, table_schema: TableSchema, df: DataFrame, options: StreamOptions
) -> DataFrame:
    """Return the rows of a batch and those rows of a table that the batch does not have.

    Rows are the same if the properties ``options.row_identity`` are equal. A source that did not
    get the last state of its stream sends all rows again, so that the table has most of them.
    """
    columns = table_schema.names_fed_by(options.row_identity) or tuple(
        column.name
        for column in table_schema.columns
        if column.feed in {ColumnSource.PROPERTY, ColumnSource.WHOLE}
    )
    rows = df.drop(ORDINAL)
    new = [F.col(quote(name)).alias(f"{_NEW}{number}") for number, name in enumerate(columns)]
    same = [
        F.col(quote(name)).eqNullSafe(F.col(f"{_NEW}{number}"))
        for number, name in enumerate(columns)
    ]
    kept_rows = writer.rows(df.sparkSession, table).join(rows.select(*new), same, "left_anti")
    return rows.unionByName(kept_rows.select(*map(quote, rows.columns)))


def keeps_rows_of_sync(
    writer: Writer,
    spark: SparkSession,
    request: CommitRequest,
    table_schema: TableSchema,
    options: StreamOptions,
) -> bool:
    """Return True if an overwrite keeps the rows that an earlier attempt of the sync has loaded.

    If a sync fails, Airbyte repeats it with the states of the streams that were complete. Their
    sources then send no rows, or only the rows after these states, so an overwrite would remove
    rows of this sync. A source that is not resumable sends either no rows or all of them again. The
    rows of the sync have its id at the beginning of ``_airbyte_meta``.

    Args:
        writer: The writer of the table format.
        spark: The Spark session.
        request: The commit request.
        table_schema: The table schema, with the column types of the existing table.
        options: The options that the user set for the stream.
    """
    generation, sync_id = options.least_version, options.sync_id
    if generation is None or sync_id is None or generation == sync_id == _PYAIRBYTE_NUMBER:
        return False
    sends_all_rows = bool(request.batches) and not options.is_resumable
    if request.mode is not WriteMode.OVERWRITE or table_schema.keys or sends_all_rows:
        return False
    types = writer.get_column_types(spark, request.table) or {}
    number, meta = (find_metadata_column(table_schema, name) for name in (GENERATION, META))
    if not {number, meta} <= types.keys():
        return False
    if isinstance(writer, DeltaWriter) and not writer.may_have_value(
        request.table, number, generation
    ):
        return False
    beginning = sql_literal(meta_prefix(sync_id))
    rows = writer.rows(spark, request.table).where(
        f"{quote(number)} = {generation}L AND startswith({quote(meta)}, {beginning})"
    )
    if rows.isEmpty():
        return False
    logger.info(_KEPT, request.stream, request.table.name)
    return True


def get_merge_keys(
    table_schema: TableSchema, request: CommitRequest, options: StreamOptions
) -> MergeKeys:
    """Return the rules for merging a stream's rows into its table.

    The rules include the key columns, the columns that order several rows with the same key, and
    the effect of records with a deletion time.
    """
    compared = (
        column.name
        for column in table_schema.columns
        if column.feed in {ColumnSource.PROPERTY, ColumnSource.WHOLE}
        and column.name not in table_schema.keys
        and column.name not in METADATA_COLUMNS
    )
    cursor = table_schema.column_fed_by(request.cursor) if request.cursor else None
    version = table_schema.column_fed_by(TABLE_VERSION, ColumnSource.METADATA)
    has_generations = table_schema.column_fed_by(GENERATION, ColumnSource.METADATA) is not None
    removed = table_schema.column_fed_by(CDC_DELETED_AT) if has_generations else None
    least = options.least_version
    return MergeKeys(
        columns=table_schema.keys,
        order=ORDINAL,
        deleted=DELETED_AT if DELETED_AT in table_schema.types else None,
        hard_delete=request.hard_delete,
        compared=tuple(compared),
        cursor=None if cursor is None else cursor.name,
        received=request.received_at,
        sort_by=table_schema.names_fed_by(request.layout.sort_by),
        by_cursor=bool(options.by_cursor),
        outdated=(GENERATION, least) if has_generations and least is not None else None,
        removed=None if removed is None else removed.name,
        version=None if version is None else version.name,
    )


def make_empty_frame(spark: SparkSession, table_schema: TableSchema) -> DataFrame:
    """Return a DataFrame without rows, for an overwrite that removes all rows of a table.

    It has the columns of the table schema, and a last one for the ordinal (position in the input).
    """
    columns = ", ".join(
        f"CAST(NULL AS {column.type.ddl}) AS {quote(column.name)}"
        for column in table_schema.columns
        if column.feed is not ColumnSource.NOTHING
    )
    return spark.sql(f"SELECT {columns}, 0L AS {quote(ORDINAL)} WHERE false")


def build_version_delete(
    request: CommitRequest, table_schema: TableSchema, version: int, source: str
) -> VersionDelete:
    """Return a `VersionDelete`, which deletes the rows of all table versions but ``version``.

    Args:
        request: The commit request. Its ``hard_delete`` decides if rows are removed or only marked
            as deleted.
        table_schema: The table schema.
        version: The Singer table version to keep.
        source: The metadata column with the table version, such as `_sdc_table_version`.
    """
    return VersionDelete(
        version,
        deleted=None if request.hard_delete else DELETED_AT,
        at=datetime.now(timezone.utc),
        history=table_schema.column_fed_by(IS_CURRENT, ColumnSource.METADATA) is not None,
        column=find_metadata_column(table_schema, source),
    )


def find_metadata_column(table_schema: TableSchema | None, source: str) -> str:
    """Return the name of the table column that holds metadata such as `_sdc_table_version`.

    The column is named ``source``, unless a property of the stream has taken this name. Without a
    schema, or if the schema lacks the column, return ``source``.
    """
    fed = table_schema and table_schema.column_fed_by(source, ColumnSource.METADATA)
    return fed.name if fed else source


def has_other_versions(
    writer: Writer, spark: SparkSession, table: Table, version: int, column: str
) -> bool:
    """Return True if a table has rows whose table version is not ``version``.

    Rows marked as deleted, and ended row versions of an scd2 table, are ignored. Return False if
    the table does not exist.

    Args:
        writer: The writer of the table format.
        spark: The Spark session.
        table: The table.
        version: The table version to compare with.
        column: The column that holds the table version.
    """
    types = writer.get_column_types(spark, table)
    if types is None:
        return False
    rows = writer.rows(spark, table)
    if column in types:
        rows = rows.where(f"NOT ({quote(column)} <=> {version}L)")
    if DELETED_AT in types:
        rows = rows.where(f"{quote(DELETED_AT)} IS NULL")
    if IS_CURRENT in types:
        rows = rows.where(quote(IS_CURRENT))
    return not rows.isEmpty()


def find_distinct_key(
    writer: Writer,
    spark: SparkSession,
    request: CommitRequest,
    keys: Sequence[str],
    known: str | None,
) -> str | None:
    """Check that no two rows of a table have the same key, and return the key columns as JSON.

    The commit stores the result, so that the next run can skip the check. In append mode and for a
    stream without keys, rows may repeat a key: nothing is checked, and None is returned.

    The check precedes an upsert, because a MERGE would replace all rows that have the key of a
    record. In scd2 mode, only the current row versions are checked. The table is not read if its
    last commit ensures that the keys are distinct (``known`` equals the key columns).

    Args:
        writer: The writer of the table format.
        spark: The Spark session.
        request: The commit request.
        keys: The key columns of the stream.
        known: The key columns, as JSON, that are known to be distinct in all rows; None if unknown.

    Raises:
        TableError: Several rows have the same key. Nothing was written.
    """
    if not keys or request.mode is WriteMode.APPEND:
        return None
    key = format_key(keys)
    if (
        request.mode in {WriteMode.UPSERT, WriteMode.SCD2}
        and key != known
        and not writer.is_empty(spark, request.table)
        and _has_repeated_keys(writer.rows(spark, request.table), keys, request.mode)
    ):
        remedy = (
            "load the stream into another table"
            if request.mode is WriteMode.SCD2
            else "load the whole stream again (full_refresh; under Airbyte, clear its data first)"
        )
        raise TableError(
            f"Table {request.table.name} has several rows with the same {', '.join(keys)}, the key"
            f" of stream {request.stream}, so that one record would replace all of them. The table"
            " was loaded with another key, in another write_mode or by another program. Nothing"
            f" was written. Remove the repeated rows, {remedy}, or set its write_mode to append."
        )
    return key


def format_key(keys: Sequence[str]) -> str:
    """Return key columns as a sorted JSON list, such as ``["id", "region"]``.

    Commits store it as `CommitMetadata.key`.
    """
    return json.dumps(sorted(keys))


def _has_repeated_keys(rows: DataFrame, keys: Sequence[str], mode: WriteMode) -> bool:
    """Return True if several rows of a table have the same key. Rows with a null key are ignored.

    In scd2 mode (all versions of a row are kept), only current rows count.
    """
    if mode is WriteMode.SCD2 and IS_CURRENT in rows.columns:
        rows = rows.where(f"{quote(IS_CURRENT)} IS NOT FALSE")
    if mode is WriteMode.SCD2 and DELETED_AT in rows.columns:
        rows = rows.where(f"{quote(DELETED_AT)} IS NULL")
    key_rows = rows.select(*map(quote, keys)).dropna()
    return not key_rows.groupBy(*map(quote, keys)).count().where("count > 1").isEmpty()


def check_scd2_compatible(request: CommitRequest, table_schema: TableSchema) -> None:
    """Raise an error if a commit request would corrupt the history of an scd2 table.

    An scd2 table keeps all versions of each row, which an upsert or append would corrupt. Such a
    table is recognized by the columns in ``table_schema``.

    Raises:
        UnsupportedError: The table is an scd2 table, and the write mode is upsert or append; or the
            write mode is scd2, and a property already fills a column with a name of the history.
    """
    taken = [name for name in HISTORY_COLUMNS if find_metadata_column(table_schema, name) != name]
    if taken:
        raise UnsupportedError(
            f"Table {request.table.name} has values of stream {request.stream} in column"
            f" {', '.join(taken)}, which write_mode scd2 needs for its history. Load the stream"
            " into another table, or set its write_mode to upsert."
        )
    unfed = {column.name for column in table_schema.columns if not column.is_fed}
    if HISTORY_COLUMNS.keys() <= unfed and request.mode in {WriteMode.UPSERT, WriteMode.APPEND}:
        raise UnsupportedError(
            f"Table {request.table.name} keeps every version of its rows (write_mode scd2), which"
            f" {request.mode.value} would corrupt. Set write_mode of {request.stream} to scd2, or"
            " to overwrite for a table without history, or load it into another table."
        )
