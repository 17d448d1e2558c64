"""A WriteHistoryBatch: versions of rows that begin and end, in a table that keeps all of them.

Rules of the room: all that a batch does is told as one step per version (it goes, it ends, or it
is as said) and made in one commit; the same batch once more gives the same table. What its files
say holds in the order of their kinds:

    earliest start  versions that began then or later go; the one that is active ends one
                    millisecond before
    replace         versions are as they are said
    update          the same, with values that are not said: they are those of the version
                    before, and in the first of a batch those of the active one
    delete          the version that is active then ends

Where the table has the very version that is the first of a row in the batch, it was written
before, by this batch or one like it, and has those values already; nor is an active version that
the batch says itself one that was there before. An update of a row that has no version is
nothing. Source: Fivetran's Partner SDK, "How to handle history mode batch files".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame

from tap_core.events import StreamId
from target_spark.fivetran.batch import Batch, File, FileParams, Kind
from target_spark.fivetran.batches import Target, Written, written
from target_spark.fivetran.merges import fill, fitted, folded, kept_while, merge
from target_spark.fivetran.reading import read
from target_spark.fivetran.shapes import Shape
from target_spark.fivetran.tables import Tables
from target_spark.fivetran.tallies import Tally, tally
from target_spark.fivetran.versions import Versions, filled, said, steps, versions_of
from target_spark.writers.steps import BEGIN, END, REMOVE

__all__ = ["write_history"]

_SAYING: Final = frozenset({Kind.REPLACE, Kind.UPDATE})
"""The files that say versions; the others say which end."""


def write_history(tables: Tables, schema: str, name: str, shape: Shape, batch: Batch) -> Written:
    """Put a batch into a table that keeps the versions of its rows; return what was in it.

    The rest is as with `write_batch`.

    Raises:
        TableError: there is no such table, or it keeps no versions; or a column is not there or
            cannot take its values.
        BatchFileError: a file or its key is not as it should be.
        StorageError: the table could not be written for longer than is waited.
    """
    return written(tables, StreamId(name, schema or None), shape, batch, _write)


def _write(target: Target, files: Sequence[File], params: FileParams) -> int:
    known = versions_of(target.shape, target.name)
    told = tally(files, params, known.shape, _SAYING)
    if told.total:
        found = [file for file in files if file.kind in told.kinds]
        rows = read(target.tables.spark, found, params, known.shape)
        _put(target, fitted(rows, target.at, known.shape), known, told)
    return told.total


def _put(target: Target, rows: DataFrame, known: Versions, told: Tally) -> None:
    if told.kinds <= {Kind.EARLIEST_START, Kind.REPLACE} and fill(
        target.tables.spark, _said(rows, known, told), target.at, target.tables.format
    ):
        return
    with kept_while(rows) as held:
        held.count()  # Delta Lake refuses what is first kept while it merges
        _merge(target, held, known, told)


def _said(rows: DataFrame, known: Versions, told: Tally) -> DataFrame:
    versions = said(rows)
    if not told.repeats:
        return versions
    return folded(versions, known.shape, has_flags=Kind.UPDATE in told.kinds)


def _merge(target: Target, rows: DataFrame, known: Versions, told: Tally) -> None:
    spark, at = target.tables.spark, target.at
    table, versions = spark.table(at.ref), _said(rows, known, told)
    if Kind.UPDATE in told.kinds:
        versions = filled(versions, table, known)
    found = steps(rows, versions, table, known)
    how = known.history.merge(at.ref, _actions_of(told))
    merge(spark, found, how, target.tables.format)


def _actions_of(told: Tally) -> frozenset[str]:
    """Return the steps that files of these kinds make."""
    actions: set[str] = set()
    if told.kinds & _SAYING:
        actions.add(BEGIN)
    if told.kinds - _SAYING:
        actions.add(END)
    if Kind.EARLIEST_START in told.kinds:
        actions.add(REMOVE)
    return frozenset(actions)
