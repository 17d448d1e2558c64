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
from target_spark.fivetran.batch import Batch, File, FileParams, Kind
from target_spark.fivetran.found import Described
from target_spark.fivetran.merges import append, fill, fitted, folded, merge, merge_of, misfit_in
from target_spark.fivetran.reading import check, fault_in, read
from target_spark.fivetran.shapes import Column, Shape
from target_spark.fivetran.tables import Tables
from target_spark.fivetran.tallies import Tally, tally
from target_spark.retries import patiently

__all__ = ["Target", "Written", "write_batch", "written"]


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch had in it: the rows that were read, and the files."""

    rows: int
    files: int


@dataclass(frozen=True, slots=True)
class Target:
    """The table of a batch as it is now, and its columns that the batch is about."""

    tables: Tables
    name: str
    at: Described
    shape: Shape


def write_batch(tables: Tables, schema: str, name: str, shape: Shape, batch: Batch) -> Written:
    """Put a batch into a table; return what was in it.

    ``shape`` are the columns of the request. Where none of them is said to be a key, those that
    the table remembers count, and else ``_fivetran_id``.

    Raises:
        TableError: there is no such table, or a column is not there or cannot take its values.
        BatchFileError: a file or its key is not as it should be.
        UnsupportedError: rows of a table without keys are to be changed.
        StorageError: the table could not be written for longer than is waited.
    """
    return written(tables, StreamId(name, schema or None), shape, batch, _write)


def written(
    tables: Tables,
    stream: StreamId,
    shape: Shape,
    batch: Batch,
    write: Callable[[Target, Sequence[File], FileParams], int],
) -> Written:
    """Put a batch into a table in the given way, again where its failure passes.

    Each time all of it is made anew from what the table then is.
    """
    files = sorted(batch.files, key=lambda file: file.kind)
    if not files:
        return Written(0, 0)
    now: list[Target] = []

    def step() -> int:
        now[:] = [_target(tables, stream, shape)]
        check(files, batch.params, now[0].shape)
        return write(now[0], files, batch.params)

    def before_again(error: BaseException) -> None:
        told: list[TargetSparkError | None] = [fault_in(error)]
        told += [misfit_in(error, target.name, target.at, target.shape) for target in now]
        for words in filter(None, told):
            raise words from None

    rows = patiently(step, f"A batch of table {stream}", before_again)
    return Written(rows, len(files))


def _target(tables: Tables, stream: StreamId, shape: Shape) -> Target:
    at = tables.described(stream.namespace or "", stream.name)
    if at is None:
        raise TableError(
            f"Table {stream} does not exist, so that no rows can be written to it."
            " Fivetran creates it when the table is synced anew."
        )
    met = at.meeting(shape)
    if any(column.is_key for column in met.columns):
        return Target(tables, str(stream), at, met)
    return Target(tables, str(stream), at, _with_keys(met, at.shape.keys, stream))


def _with_keys(shape: Shape, keys: Sequence[Column], stream: StreamId) -> Shape:
    """Return the columns of a request with the keys that the table has."""
    names = {key.name for key in keys}
    if lacking := sorted(names - shape.by_name.keys()):
        raise TableError(
            f"The key of table {stream} is {', '.join(sorted(names))}, and the call does"
            f" not tell of {', '.join(lacking)}. Sync the table anew."
        )
    return Shape(tuple(replace(each, is_key=each.name in names) for each in shape.columns))


def _write(target: Target, files: Sequence[File], params: FileParams) -> int:
    _refuse_without_keys(target, files)
    told = tally(files, params, target.shape)
    if told.total:
        _put(target, [file for file in files if file.kind in told.kinds], params, told)
    return told.total


def _refuse_without_keys(target: Target, files: Sequence[File]) -> None:
    if not target.shape.keys and any(file.kind is not Kind.REPLACE for file in files):
        raise UnsupportedError(
            f"Table {target.name} has no key, so that no row of it can be told from"
            " others: nothing in it can be updated or deleted. Nothing was written. Sync the"
            " table anew, so that Fivetran gives it one."
        )


def _put(target: Target, files: Sequence[File], params: FileParams, told: Tally) -> None:
    at, shape, tables = target.at, target.shape, target.tables
    has_flags = Kind.UPDATE in told.kinds
    rows = fitted(read(tables.spark, files, params, shape), at, shape)
    if told.repeats:
        rows = folded(rows, shape, has_flags=has_flags)
    only_replaces = told.kinds == {Kind.REPLACE}
    if only_replaces and not shape.keys:
        append(rows, at, tables.format)
    elif not only_replaces or not fill(tables.spark, rows, at, tables.format):
        how = merge_of(at.ref, shape, told.kinds, has_flags=has_flags)
        merge(tables.spark, rows, how, tables.format)
