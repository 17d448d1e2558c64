"""Work whose rows all stand in the spool, those of files too.

Rules of the room: the rows of a file take as many ordinals as the file has lines, so all
that comes after them in the same table is moved; a table's commits are made in order, so
that is known when it is needed. Who asks for it says where it is written, gives each try a
place of its own, and removes them all when the commit is made or has failed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tap_core.batch.limits import FileLimits
from target_spark.columns import DELETED_AT
from target_spark.frames import assign_ordinals, spool_lines_from_files
from target_spark.loader.batch_file_download import looked_through
from target_spark.loader.batch_files import BatchFile
from target_spark.loader.commit_request import CommitRequest
from target_spark.storage.hadoop_fs import remove_file
from target_spark.storage.retry import first_error_line
from target_spark.storage.spool import SpoolFolder
from target_spark.storage.uris import to_spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["IngestedFiles", "ingest_files", "remove_files"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IngestedFiles:
    """Work without files; how many rows they had, and how far they move later ordinals."""

    work: CommitRequest
    rows: int
    moved: int


def ingest_files(
    spark: SparkSession,
    work: CommitRequest,
    moved: int,
    address: str,
    folder: SpoolFolder,
    limits: FileLimits,
) -> IngestedFiles:
    """Return the work with the rows of its files in the spool, below an ``address`` that is free.

    ``moved`` is how far the files of earlier work move the ordinals; ``folder`` takes copies.

    Raises:
        FilesError: a file cannot be read, or holds more than the limits allow.
        DiskFullError: there is no room for a copy.
    """
    named = [file for batch in work.batches for file in batch.files]
    with looked_through(spark, named, folder, limits) as files:
        found = spool_lines_from_files(spark, files, f"{address}/files", moved)
    spool = tuple(to_spark_uri(each) for batch in work.batches for each in batch.paths)
    first_move = min((ordinal for ordinal, _ in found.moves), default=work.batches[-1].last)
    if spool and (moved or work.batches[-1].last > first_move):
        assign_ordinals(spark, spool, f"{address}/spool", found.moves, moved)
        spool = (f"{address}/spool",)
    if found.mended:
        logger.warning(
            "Stream %s: in %d rows of its files NaN or Infinity is read as null.",
            work.stream,
            found.mended,
        )
    whole = replace(
        work.batches[0],
        paths=(*spool, *found.paths),
        files=(),
        count=work.count + found.rows,
        cut_at=work.batches[-1].cut_at,
    )
    layout = work.layout.with_metadata(DELETED_AT) if found.has_deletes else work.layout
    total = moved + sum(places for _, places in found.moves)
    return IngestedFiles(replace(work, batches=(whole,), layout=layout), found.rows, total)


def remove_files(spark: SparkSession, files: Sequence[BatchFile]) -> None:
    """Remove files whose rows are committed; what cannot be removed is said."""
    for file in files:
        try:
            remove_file(spark, file.address)
        except Exception as error:  # noqa: BLE001, PERF203  (the rows are safe)
            logger.warning("%s could not be deleted: %s", file.shown, first_error_line(error))
