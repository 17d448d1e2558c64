"""A WriteBatch: rows that replace others, change some of their values, or take them away.

Rules of the room: all files are read to their end before anything is committed, and there is one
commit: a batch is in the table as a whole or not at all, and one that is sent again because its
answer was lost changes nothing. An update or a deletion of a row that is not there is nothing.
Where rows come into an empty table, nothing is met and they are only added; if another writer puts
rows into it meanwhile, the batch is merged with them. Of a key that stands there twice, against
Fivetran's word, all rows count in the order of their kinds and files.
Source: Fivetran's Partner SDK development guide, "WriteBatchRequest" and "FAQ".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tap_core.events import StreamId
from target_spark.errors import TableError, TargetSparkError, UnsupportedError
from target_spark.fivetran.batch_frame import find_file_error, read_files, validate_files
from target_spark.fivetran.batch_request import BatchRequest, FileKind, FileParams, RequestFile
from target_spark.fivetran.batch_stats import BatchStats, count_rows
from target_spark.fivetran.existing_table import ExistingTable
from target_spark.fivetran.merge import (
    append_rows,
    build_merge,
    cast_to_table,
    collapse_by_key,
    fill,
    find_cast_failure,
    merge_rows,
)
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.tables import TableService
from target_spark.storage.retry import retry_transient

__all__ = ["BatchResult", "BatchTarget", "write_batch", "write_with_retry"]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch had in it: the rows that were read, and the files."""

    rows: int
    files: int


@dataclass(frozen=True, slots=True)
class BatchTarget:
    """The table of a batch as it is now, and its columns that the batch is about."""

    tables: TableService
    name: str
    at: ExistingTable
    shape: FivetranSchema


def write_batch(
    tables: TableService, schema: str, name: str, shape: FivetranSchema, batch: BatchRequest
) -> BatchResult:
    """Put a batch into a table; return what was in it.

    ``shape`` are the columns of the request. Where none of them is said to be a key, those that
    the table remembers count, and else ``_fivetran_id``.

    Raises:
        TableError: there is no such table, or a column is not there or cannot take its values.
        BatchFileError: a file or its key is not as it should be.
        UnsupportedError: rows of a table without keys are to be changed.
        StorageError: the table could not be written for longer than is waited.
    """
    return write_with_retry(tables, StreamId(name, schema or None), shape, batch, _write)


def write_with_retry(
    tables: TableService,
    stream: StreamId,
    shape: FivetranSchema,
    batch: BatchRequest,
    write: Callable[[BatchTarget, Sequence[RequestFile], FileParams], int],
) -> BatchResult:
    """Put a batch into a table in the given way, again where its failure passes.

    Each time all of it is made anew from what the table then is.
    """
    files = sorted(batch.files, key=lambda file: file.kind)
    if not files:
        return BatchResult(0, 0)
    now: list[BatchTarget] = []

    def step() -> int:
        now[:] = [_target(tables, stream, shape)]
        validate_files(files, batch.params, now[0].shape)
        return write(now[0], files, batch.params)

    def before_again(error: BaseException) -> None:
        told: list[TargetSparkError | None] = [find_file_error(error)]
        told += [find_cast_failure(error, target.name, target.at, target.shape) for target in now]
        for words in filter(None, told):
            raise words from None

    rows = retry_transient(step, f"A batch of table {stream}", before_again)
    return BatchResult(rows, len(files))


def _target(tables: TableService, stream: StreamId, shape: FivetranSchema) -> BatchTarget:
    at = tables.described(stream.namespace or "", stream.name)
    if at is None:
        raise TableError(
            f"Table {stream} does not exist, so that no rows can be written to it."
            " Fivetran creates it when the table is synced anew."
        )
    met = at.meeting(shape)
    if any(column.is_key for column in met.columns):
        return BatchTarget(tables, str(stream), at, met)
    return BatchTarget(tables, str(stream), at, _with_keys(met, at.shape.keys, stream))


def _with_keys(
    shape: FivetranSchema, keys: Sequence[DestinationColumn], stream: StreamId
) -> FivetranSchema:
    """Return the columns of a request with the keys that the table has."""
    names = {key.name for key in keys}
    if lacking := sorted(names - shape.by_name.keys()):
        raise TableError(
            f"The key of table {stream} is {', '.join(sorted(names))}, and the call does"
            f" not tell of {', '.join(lacking)}. Sync the table anew."
        )
    return FivetranSchema(tuple(replace(each, is_key=each.name in names) for each in shape.columns))


def _write(target: BatchTarget, files: Sequence[RequestFile], params: FileParams) -> int:
    _refuse_without_keys(target, files)
    told = count_rows(files, params, target.shape)
    if told.total:
        _put(target, [file for file in files if file.kind in told.kinds], params, told)
    return told.total


def _refuse_without_keys(target: BatchTarget, files: Sequence[RequestFile]) -> None:
    if not target.shape.keys and any(file.kind is not FileKind.REPLACE for file in files):
        raise UnsupportedError(
            f"Table {target.name} has no key, so that no row of it can be told from"
            " others: nothing in it can be updated or deleted. Nothing was written. Sync the"
            " table anew, so that Fivetran gives it one."
        )


def _put(
    target: BatchTarget, files: Sequence[RequestFile], params: FileParams, told: BatchStats
) -> None:
    at, shape, tables = target.at, target.shape, target.tables
    has_flags = FileKind.UPDATE in told.kinds
    rows = cast_to_table(read_files(tables.spark, files, params, shape), at, shape)
    if told.repeats:
        rows = collapse_by_key(rows, shape, has_flags=has_flags)
    only_replaces = told.kinds == {FileKind.REPLACE}
    if only_replaces and not shape.keys:
        append_rows(rows, at, tables.format)
    elif not only_replaces or not fill(tables.spark, rows, at, tables.format):
        how = build_merge(at.ref, shape, told.kinds, has_flags=has_flags)
        merge_rows(tables.spark, rows, how, tables.format)
