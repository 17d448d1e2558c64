"""Execution of Fivetran's WriteHistoryBatch: write batch files to a table that keeps row versions.

A batch is one commit, and repeating it gives the same table. Files are applied in this order:

  earliest start  Remove the row's versions that start at or after this time, and end the active
                  version one millisecond before this time.
  replace         Write a version of the row.
  update          Write a version whose unmodified values are copied from the row's previous version
                  in the batch or else in the table.
  delete          End the active version.

An update of a row without versions has no effect. `target_spark.fivetran.history_versions` computes
the changes.

Source: Fivetran's Partner SDK, "How to handle history mode batch files".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame

from target_spark.fivetran.batch_frame import read_files
from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.batch_stats import BatchStats, count_rows
from target_spark.fivetran.history_versions import (
    VersionedSchema,
    build_changes,
    fill_unmodified,
    parse_versioned_schema,
    select_versions,
)
from target_spark.fivetran.merge import (
    append_if_empty,
    cast_to_table,
    collapse_by_key,
    merge_rows,
    persisted,
)
from target_spark.fivetran.write_batch import BatchTarget
from target_spark.writers.history_merge import BEGIN, END, REMOVE

__all__ = ["write_versions"]

_VERSION_KINDS: Final = frozenset({FileKind.REPLACE, FileKind.UPDATE})
"""Kinds of batch files that write row versions. The other kinds end or remove versions."""


def write_versions(target: BatchTarget, files: Sequence[RequestFile], params: FileParams) -> int:
    """Write the files of a WriteHistoryBatch request to a table that keeps all versions of rows.

    Return the number of rows.

    Raises:
        TableError: The table is not in history mode, or has a column whose type does not fit a
            value.
        BatchFileLoadError: A file is invalid.
    """
    schema = parse_versioned_schema(target.fivetran_schema, target.name)
    stats = count_rows(files, params, schema.fivetran_schema, target.existing, _VERSION_KINDS)
    if stats.total:
        nonempty = [file for file in files if file.kind in stats.kinds]
        rows = read_files(target.tables.spark, nonempty, params, schema.fivetran_schema)
        _insert_and_end_versions(
            target, cast_to_table(rows, target.existing, schema.fivetran_schema), schema, stats
        )
    return stats.total


def _insert_and_end_versions(
    target: BatchTarget, rows: DataFrame, schema: VersionedSchema, stats: BatchStats
) -> None:
    if stats.kinds <= {FileKind.EARLIEST_START, FileKind.REPLACE} and append_if_empty(
        target.tables.spark, _build_versions(rows, schema, stats), target.existing
    ):
        return
    with persisted(rows) as stored:
        stored.count()  # Delta Lake refuses a source that is first persisted during its merge
        _merge(target, stored, schema, stats)


def _build_versions(rows: DataFrame, schema: VersionedSchema, stats: BatchStats) -> DataFrame:
    versions = select_versions(rows)
    if not stats.repeats:
        return versions
    return collapse_by_key(
        versions, schema.fivetran_schema, has_flags=FileKind.UPDATE in stats.kinds
    )


def _merge(
    target: BatchTarget, rows: DataFrame, schema: VersionedSchema, stats: BatchStats
) -> None:
    spark, existing = target.tables.spark, target.existing
    table, versions = spark.table(existing.ref), _build_versions(rows, schema, stats)
    if FileKind.UPDATE in stats.kinds:
        versions = fill_unmodified(versions, table, schema)
    changes = build_changes(rows, versions, table, schema)
    merge = schema.history.merge(existing.ref, _get_actions(stats))
    merge_rows(spark, changes, merge, existing)


def _get_actions(stats: BatchStats) -> frozenset[str]:
    """Return the actions that the MERGE of a batch needs for its kinds of files.

    The actions are `BEGIN` (write a row version), `END` (end a row version) and `REMOVE` (delete a
    row version).
    """
    actions: set[str] = set()
    if stats.kinds & _VERSION_KINDS:
        actions.add(BEGIN)
    if stats.kinds - _VERSION_KINDS:
        actions.add(END)
    if FileKind.EARLIEST_START in stats.kinds:
        actions.add(REMOVE)
    return frozenset(actions)
