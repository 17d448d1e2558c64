"""Execution of Fivetran's WriteBatch: batch files replace, update or delete rows of a table.

- A batch is one commit, so it is applied completely or not at all. A repeated batch changes
  nothing. In a table without a key it is recognized by its files, if no commit after it has updated
  or removed rows.
- An update or deletion of a row that does not exist has no effect.
- If the table is empty, rows are appended without a merge.
- Fivetran sends each key once per batch. If a key is repeated nevertheless, its rows are applied in
  the order of file kinds and files.

Source: Fivetran's Partner SDK development guide, "WriteBatchRequest" and "FAQ".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tap_core.events import StreamId
from target_spark.errors import TableError, TargetSparkError, UnsupportedError
from target_spark.fivetran.batch_frame import find_file_error, read_files, validate_files
from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.batch_stats import BatchStats, count_rows
from target_spark.fivetran.existing_table import ExistingTable
from target_spark.fivetran.file_reader import identify_files
from target_spark.fivetran.merge import (
    append_if_empty,
    append_rows,
    build_merge,
    cast_to_table,
    collapse_by_key,
    find_cast_failure,
    merge_rows,
)
from target_spark.fivetran.table_schema import START, DestinationColumn, FivetranSchema
from target_spark.fivetran.tables import TableService
from target_spark.storage.commit_retry import retry_transient

__all__ = ["BatchResult", "BatchTarget", "write_changes", "write_with_retry"]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Numbers of rows and batch files that a request of Fivetran has written to a table."""

    rows: int
    files: int


@dataclass(frozen=True, slots=True)
class BatchTarget:
    """Table that the batch files of a Fivetran request are written to, and its columns.

    Attributes:
        tables: The `TableService` of the gRPC call.
        name: The name of the table, for messages.
        existing: The table, as looked up at the start of this attempt.
        fivetran_schema: The columns of the batch, with the keys and column names of the table.
    """

    tables: TableService
    name: str
    existing: ExistingTable
    fivetran_schema: FivetranSchema


def write_with_retry(
    tables: TableService,
    stream: StreamId,
    fivetran_schema: FivetranSchema,
    files: Iterable[RequestFile],
    params: FileParams,
    write: Callable[[BatchTarget, Sequence[RequestFile], FileParams], int],
) -> BatchResult:
    """Write batch files of Fivetran with the function ``write``. Retry after transient errors.

    Each attempt looks up the table again and opens the files again. If the request marks no column
    as a key, the table's key is used: the key columns stored with the table, or else
    ``_fivetran_id``.

    Args:
        tables: The `TableService` of the gRPC call.
        stream: The stream of the table.
        fivetran_schema: The columns of the request.
        files: The files.
        params: The format of the files.
        write: Function that writes the files to the table and returns the number of rows. Its
            arguments are the table, the files and their format.

    Raises:
        TableError: The table does not exist, lacks a column, or has a column whose type does not
            fit a value.
        BatchFileLoadError: A file or its AES key is invalid.
        StorageError: All attempts to write the table failed.
    """
    ordered = sorted(files, key=lambda file: file.kind)  # the order in which they are applied
    if not ordered:
        return BatchResult(0, 0)

    target: BatchTarget | None = None
    lookup = tables.lookup(stream)

    def attempt() -> int:
        nonlocal target
        target = _build_target(tables, stream, lookup.load(), fivetran_schema)
        validate_files(ordered, params, target.fivetran_schema)
        return write(target, ordered, params)

    def raise_explained(error: BaseException) -> None:
        explained: TargetSparkError | None = find_file_error(error)
        if explained is None and target is not None:
            explained = find_cast_failure(
                error, target.name, target.existing, target.fivetran_schema
            )
        if explained is not None:
            raise explained from None

    rows = retry_transient(attempt, f"A batch of table {stream}", raise_explained)
    return BatchResult(rows, len(ordered))


def _build_target(
    tables: TableService,
    stream: StreamId,
    existing: ExistingTable | None,
    fivetran_schema: FivetranSchema,
) -> BatchTarget:
    if existing is None:
        raise TableError(
            f"Table {stream} does not exist, so no rows can be written to it. Fivetran creates it"
            " in a re-sync of the table."
        )
    matched = existing.match_columns(fivetran_schema)
    if not any(column.is_key for column in matched.columns):
        matched = _use_table_keys(matched, existing.fivetran_schema.keys, stream)
    return BatchTarget(tables, str(stream), existing, matched)


def _use_table_keys(
    fivetran_schema: FivetranSchema, keys: Sequence[DestinationColumn], stream: StreamId
) -> FivetranSchema:
    """Return the columns of a Fivetran request, with the table's key columns marked as keys.

    Raises:
        TableError: A key column of the table is not in the request.
    """
    names = {key.name for key in keys}
    if missing := sorted(names - fivetran_schema.by_name.keys()):
        raise TableError(
            f"The key of table {stream} is {', '.join(sorted(names))}, and the call has no column"
            f" {', '.join(missing)}. Re-sync the table."
        )
    return FivetranSchema(
        tuple(replace(column, is_key=column.name in names) for column in fivetran_schema.columns)
    )


def write_changes(target: BatchTarget, files: Sequence[RequestFile], params: FileParams) -> int:
    """Write the files of a WriteBatch request to a table; return the number of rows.

    Raises:
        TableError: The table has a column whose type does not fit a value.
        BatchFileLoadError: A file is invalid.
        UnsupportedError: The batch updates or deletes rows of a table without a key, or deletes
            rows of a table in history mode.
    """
    _refuse_unidentified_rows(target, files)
    stats = count_rows(files, params, target.fivetran_schema, target.existing)
    if stats.total:
        _write_rows(target, [file for file in files if file.kind in stats.kinds], params, stats)
    return stats.total


def _refuse_unidentified_rows(target: BatchTarget, files: Sequence[RequestFile]) -> None:
    keys = target.fivetran_schema.keys
    kinds = {file.kind for file in files}
    if not keys and kinds != {FileKind.REPLACE}:
        raise UnsupportedError(
            f"Table {target.name} has no key, so no row of it can be updated or deleted. Nothing"
            " was written. Re-sync the table, so that Fivetran gives it a key."
        )
    if FileKind.DELETE in kinds and any(key.name == START for key in keys):
        raise UnsupportedError(
            f"Table {target.name} is in history mode: its key has the column {START}, which a"
            " delete file does not have. Nothing was written. Send the files in a"
            " WriteHistoryBatch, or re-sync the table without history mode."
        )


def _write_rows(
    target: BatchTarget, files: Sequence[RequestFile], params: FileParams, stats: BatchStats
) -> None:
    existing, fivetran_schema, tables = target.existing, target.fivetran_schema, target.tables
    has_flags = FileKind.UPDATE in stats.kinds
    rows = cast_to_table(
        read_files(tables.spark, files, params, fivetran_schema), existing, fivetran_schema
    )
    if stats.repeats:
        rows = collapse_by_key(rows, fivetran_schema, has_flags=has_flags)
    only_replaces = stats.kinds == {FileKind.REPLACE}
    if only_replaces and not fivetran_schema.keys:
        append_rows(tables.spark, rows, existing, identify_files(files, params))
    elif not only_replaces or not append_if_empty(tables.spark, rows, existing):
        merge = build_merge(existing.ref, fivetran_schema, stats.kinds, has_flags=has_flags)
        merge_rows(tables.spark, rows, merge, existing)
