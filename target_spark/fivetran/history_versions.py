"""Computation of the changes that a WriteHistoryBatch makes to the versions of rows in a table.

In Fivetran's history mode a table keeps all versions of a row. A version is identified by the row's
key and its start time, which are never null. Versions of a row are ordered by their start time,
independently of their files. `target_spark.writers.history_merge` applies the resulting DataFrame,
which has at most one change per version.
Source: Fivetran's Partner SDK, "How to handle history mode batch files".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tap_core.protocols.fivetran.enums import DataType
from target_spark.errors import TableError
from target_spark.fivetran.batch_request import FileKind
from target_spark.fivetran.merge import column_ref
from target_spark.fivetran.row_reader import OP, ORDINAL, unmodified_flag
from target_spark.fivetran.table_schema import (
    ACTIVE,
    DATETIME_TYPES,
    END,
    START,
    DestinationColumn,
    FivetranSchema,
)
from target_spark.tables.identifiers import quote
from target_spark.writers.history_merge import ACTION, BEGIN, REMOVE, HistoryMerge
from target_spark.writers.history_merge import END as END_ACTION
from target_spark.writers.merge_statement import source_column

__all__ = [
    "VersionedSchema",
    "build_changes",
    "fill_unmodified",
    "parse_versioned_schema",
    "select_versions",
]

_REQUIRED_TYPES: Final = {START: DATETIME_TYPES, END: DATETIME_TYPES, ACTIVE: (DataType.BOOLEAN,)}
"""Columns that history mode requires, with the types that each may have."""

_JUST_BEFORE: Final = "INTERVAL 1 MILLISECOND"

# Columns of intermediate DataFrames.
_EARLIEST_START: Final = "__fivetran_earliest_start"
_DELETED_AT: Final = "__fivetran_deleted_at"
_FIRST_START: Final = "__fivetran_first_start"
_BATCH_STARTS: Final = "__fivetran_batch_starts"
_RANK: Final = "__fivetran_rank"
_ROW_EXISTS: Final = "__fivetran_row_exists"


@dataclass(frozen=True, slots=True)
class VersionedSchema:
    """Columns of a table in Fivetran's history mode, which keeps all versions of a row.

    Attributes:
        fivetran_schema: All columns. Those that identify a version are marked as keys.
        row: The columns that identify a row. Together with ``start`` they identify a version.
        start: The column with the start time of a version.
        end: The column with the end time of a version.
        active: The boolean column that is true in the current version of a row.
    """

    fivetran_schema: FivetranSchema
    row: tuple[DestinationColumn, ...]
    start: DestinationColumn
    end: DestinationColumn
    active: DestinationColumn

    @property
    def row_keys(self) -> list[Expression]:
        """Columns that identify a row but not its version, as Spark column expressions."""
        return [column_ref(key) for key in self.row]

    @property
    def row_names(self) -> list[str]:
        """Names of the columns that identify a row but not its version."""
        return [key.column for key in self.row]

    @property
    def key_names(self) -> list[str]:
        """Names of the columns that identify a version: the row's key columns and the start."""
        return [*self.row_names, self.start.column]

    @property
    def history(self) -> HistoryMerge:
        """Builder of the MERGE that inserts, ends and removes versions of rows in the table."""
        columns = [column.column for column in self.fivetran_schema.columns]
        ended = {column.column: source_column(column.column) for column in (self.end, self.active)}
        return HistoryMerge(columns, self.key_names, ended)


def parse_versioned_schema(fivetran_schema: FivetranSchema, table: str) -> VersionedSchema:
    """Find the columns that history mode requires, such as the start time, in a table's schema.

    In history mode, a table keeps all versions of its rows.

    Args:
        fivetran_schema: The columns of the table.
        table: The name of the table, for messages.

    Raises:
        TableError: A required column is missing or has a wrong type, or the table has no key.
    """
    by_name = fivetran_schema.by_name
    for name, types in _REQUIRED_TYPES.items():
        if name not in by_name or by_name[name].type not in types:
            fault = f"is {by_name[name].type.name}" if name in by_name else "is missing"
            raise _make_history_error(table, f"its column {name} {fault}")
    row = {key.name for key in fivetran_schema.keys} - {START}
    if not row:
        raise _make_history_error(table, f"it has no key beside {START}")
    keyed = FivetranSchema(
        tuple(replace(each, is_key=each.name in {*row, START}) for each in fivetran_schema.columns)
    )
    keys = tuple(column for column in keyed.keys if column.name != START)
    return VersionedSchema(keyed, keys, *(keyed.by_name[name] for name in (START, END, ACTIVE)))


def _make_history_error(table: str, reason: str) -> TableError:
    return TableError(
        f"Table {table} keeps no versions of its rows: {reason}. Nothing was written. Re-sync the"
        " table in history mode."
    )


def select_versions(rows: DataFrame) -> DataFrame:
    """Return the rows of a batch that write row versions: those of replace and update files.

    Args:
        rows: The rows of all files of a WriteHistoryBatch request.
    """
    return rows.where(F.col(OP).isin(int(FileKind.REPLACE), int(FileKind.UPDATE)))


def fill_unmodified(versions: DataFrame, table: DataFrame, schema: VersionedSchema) -> DataFrame:
    """Fill unmodified values in the row versions of a batch from the previous versions.

    An update file of history mode marks the values that an update does not change. These values are
    copied from the previous version of the row in the batch, or else in the table. An update of a
    row without a previous version is left out.

    Args:
        versions: The versions that the batch inserts or updates.
        table: The rows of the table.
        schema: The columns of the table.

    Returns:
        The versions with all values.
    """
    base_versions = _find_base_versions(versions, table, schema)
    is_base = F.col(OP) == int(FileKind.EARLIEST_START)
    order = Window.partitionBy(*schema.row_keys).orderBy(
        ~is_base, column_ref(schema.start), F.col(ORDINAL)
    )
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def get_last_value(column: DestinationColumn) -> Expression:
        is_set = ~F.col(quote(unmodified_flag(column)))
        value = F.struct(column_ref(column).alias("is"))  # not null, even if the value is null
        return F.last(F.when(is_set, value), ignorenulls=True).over(so_far)["is"]

    values = {
        column.column: get_last_value(column) for column in schema.fivetran_schema.non_key_columns
    }
    row_exists = F.max(F.col(OP) != int(FileKind.UPDATE)).over(so_far)
    filled = versions.unionByName(base_versions).withColumns({**values, _ROW_EXISTS: row_exists})
    return filled.where(F.col(_ROW_EXISTS) & ~is_base)


def _find_base_versions(
    versions: DataFrame, table: DataFrame, schema: VersionedSchema
) -> DataFrame:
    """Return the row versions in ``table`` from which a batch copies unmodified values.

    ``versions`` are the versions that the batch writes. The result has the same columns, but its
    rows have `FileKind.EARLIEST_START` in the column `OP`, to distinguish them from ``versions``.

    For each row in ``versions``, the first of these that exists is returned:

    1. The version with the start time of the row's first version in the batch. It exists if the
       batch was written before.
    2. The active version, unless the batch contains a version with its start time.
    3. The last version that starts before the row's first version in the batch.
    """
    start = column_ref(schema.start)
    batch_starts = versions.groupBy(*schema.row_keys).agg(
        F.min(start).alias(_FIRST_START), F.collect_set(start).alias(_BATCH_STARTS)
    )
    columns = list(map(column_ref, schema.fivetran_schema.columns))
    candidates = table.select(*columns).join(batch_starts, schema.row_names)
    rank = (
        F.when(start == F.col(_FIRST_START), 0)
        .when(column_ref(schema.active) & ~F.array_contains(_BATCH_STARTS, start), 1)
        .when(start < F.col(_FIRST_START), 2)
    )
    best = Window.partitionBy(*schema.row_keys).orderBy(F.col(_RANK), start.desc())
    ranked = candidates.withColumn(_RANK, rank).where(F.col(_RANK).isNotNull())
    base_versions = ranked.withColumn(_RANK, F.row_number().over(best)).where(F.col(_RANK) == 1)
    return base_versions.select(
        *columns,
        *(
            F.lit(col=False).alias(unmodified_flag(column))
            for column in schema.fivetran_schema.non_key_columns
        ),
        F.lit(int(FileKind.EARLIEST_START)).cast("tinyint").alias(OP),
        F.lit(-1).cast("bigint").alias(ORDINAL),
    )


def build_changes(
    rows: DataFrame, versions: DataFrame, table: DataFrame, schema: VersionedSchema
) -> DataFrame:
    """Compute the changes that a batch of Fivetran makes to the row versions in a table.

    Args:
        rows: All rows of the batch.
        versions: The versions that the batch inserts or updates.
        table: The rows of the table.
        schema: The columns of the table.

    Returns:
        A DataFrame with one row per change, and the columns that
        `target_spark.writers.history_merge` requires.
    """
    version_ends = _aggregate_version_ends(rows, schema)
    begin_changes = _build_begin_changes(versions, version_ends, schema)
    end_changes = _build_end_changes(versions, table, version_ends, schema)
    return begin_changes.unionByName(end_changes, allowMissingColumns=True)


def _aggregate_version_ends(rows: DataFrame, schema: VersionedSchema) -> DataFrame:
    """Return the times at which a history mode batch removes or ends versions, by row.

    ``rows`` has the rows of all files of the batch. The result has one row per key in
    earliest-start or delete files, with two times that may be null:

    - The earliest start time. The row's versions in the table that start at or after this time
      are removed, and the active version ends 1 ms before it.
    - The deletion time, at which the active version ends if there is no earliest start time.
    """
    is_earliest = F.col(OP) == int(FileKind.EARLIEST_START)
    is_deleted = F.col(OP) == int(FileKind.DELETE)
    end = F.struct(column_ref(schema.end).alias("is"))  # not null, even if the time is null
    return (
        rows.where(is_earliest | is_deleted)
        .groupBy(*schema.row_keys)
        .agg(
            F.min(F.when(is_earliest, column_ref(schema.start))).alias(_EARLIEST_START),
            F.max_by(F.when(is_deleted, end), F.when(is_deleted, F.col(ORDINAL))).alias(
                _DELETED_AT
            ),
        )
    )


def _build_begin_changes(
    versions: DataFrame, version_ends: DataFrame, schema: VersionedSchema
) -> DataFrame:
    """Return the changes that insert or update a batch's row versions in a history mode table.

    If the batch also deletes a row, the row's new active version ends at the deletion time. The
    deletion times are in ``version_ends``, the result of `_aggregate_version_ends`.
    """
    active, end = column_ref(schema.active), column_ref(schema.end)
    is_deleted = active & F.col(_DELETED_AT).isNotNull()
    changed = versions.join(version_ends, schema.row_names, "left").withColumns(
        {
            schema.end.column: F.when(is_deleted, F.col(_DELETED_AT)["is"]).otherwise(end),
            schema.active.column: F.when(is_deleted, F.lit(col=False)).otherwise(active),
        }
    )
    return changed.select(
        *map(column_ref, schema.fivetran_schema.columns), F.lit(BEGIN).alias(ACTION)
    )


def _build_end_changes(
    versions: DataFrame, table: DataFrame, version_ends: DataFrame, schema: VersionedSchema
) -> DataFrame:
    """Return the changes that remove or end existing row versions in a history mode table.

    Their end times are in ``version_ends``, the result of `_aggregate_version_ends`. Versions that
    the batch itself writes (``versions``) are left out.
    """
    keys = [*schema.row_keys, column_ref(schema.start)]
    is_affected = F.col(_EARLIEST_START).isNotNull() | F.col(_DELETED_AT).isNotNull()
    is_removed = column_ref(schema.start) >= F.col(_EARLIEST_START)
    action = F.when(is_removed, F.lit(REMOVE)).when(
        column_ref(schema.active) & is_affected, F.lit(END_ACTION)
    )
    end = F.coalesce(F.col(_EARLIEST_START) - F.expr(_JUST_BEFORE), F.col(_DELETED_AT)["is"])
    return (
        table.select(*keys, column_ref(schema.active))
        .join(version_ends, schema.row_names)
        .select(
            *keys,
            end.alias(schema.end.column),
            F.lit(col=False).alias(schema.active.column),
            action.alias(ACTION),
        )
        .where(F.col(ACTION).isNotNull())
        .dropDuplicates(schema.key_names)
        .join(versions.select(*keys), schema.key_names, "left_anti")
    )
