"""Conversion of the files of BATCH messages into spool files (JSON lines) before their commit.

An ordinal is the position of a row or message in the input. A BATCH message has one ordinal, but
its files contain many rows. The ordinals of all later rows of the same table are therefore
increased by the number of rows in the files. Commits of a table are made in order, so this number
is known before the next commit. The caller chooses a new output location for each attempt. It
removes all output locations when the commit succeeds or fails.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from tap_core.batch.limits import FileLimits
from target_spark.columns import DELETED_AT
from target_spark.frames import assign_ordinals, spool_lines_from_files
from target_spark.loader.batch_file_checks import BatchFile
from target_spark.loader.batch_file_download import downloaded_files
from target_spark.loader.commit_request import CommitRequest
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.hadoop_fs import remove_file
from target_spark.storage.spool import Batch, SpoolFolder
from target_spark.storage.uris import to_spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["IngestedFiles", "ingest_files", "remove_batch_files"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IngestedFiles:
    """Commit request whose batch files were converted to spool files, with row counts.

    Attributes:
        request: The commit request with one batch for each table schema of its batches. All rows,
            also those from the files of BATCH messages, are in spool files (JSON lines).
        rows: The number of rows read from files of BATCH messages.
        ordinal_shift: The number to add to the input positions (ordinals) of the table's next rows.
    """

    request: CommitRequest
    rows: int
    ordinal_shift: int


def ingest_files(
    spark: SparkSession,
    request: CommitRequest,
    ordinal_shift: int,
    address: str,
    folder: SpoolFolder,
    limits: FileLimits,
) -> IngestedFiles:
    """Convert files of BATCH messages in a commit request to spool files (JSON lines on disk).

    Args:
        spark: The Spark session that reads the files.
        request: The commit request.
        ordinal_shift: The number that earlier batch files of the table have added to the
            ordinals (input positions) of its rows.
        address: An unused URL, below which the converted rows are written.
        folder: The folder to which remote files are downloaded.
        limits: The limits on the size and content of files.

    Returns:
        The request without batch files, the number of rows read, and the new ordinal shift.

    Raises:
        FilesError: A file cannot be read or exceeds the limits.
        DiskFullError: There is not enough disk space to download a file.
    """
    parts: list[_Part] = []
    shift = ordinal_shift
    for _, batches in groupby(request.batches, key=lambda batch: batch.table_schema):
        location = f"{address}/{len(parts) + 1}"
        part = _ingest_part(spark, tuple(batches), shift, location, folder, limits)
        parts.append(part)
        shift += part.line_count
    table_schema = request.table_schema
    if any(part.has_deletes for part in parts):
        table_schema = table_schema.with_metadata(DELETED_AT)
    converted = replace(
        request, batches=tuple(part.batch for part in parts), table_schema=table_schema
    )
    return IngestedFiles(converted, sum(part.rows for part in parts), shift)


class _Part(NamedTuple):
    """Converted batch, with the numbers of rows and lines that its batch files had."""

    batch: Batch
    rows: int
    line_count: int
    has_deletes: bool


def _ingest_part(
    spark: SparkSession,
    batches: Sequence[Batch],
    ordinal_shift: int,
    address: str,
    folder: SpoolFolder,
    limits: FileLimits,
) -> _Part:
    """Convert consecutive batches with one table schema to a batch without batch files."""
    batch_files = [file for batch in batches for file in batch.files]
    with downloaded_files(spark, batch_files, folder, limits) as files:
        converted = spool_lines_from_files(spark, files, f"{address}/files", ordinal_shift)
    spool = tuple(to_spark_uri(path) for batch in batches for path in batch.paths)
    last_ordinal = batches[-1].last
    file_ordinals = (ordinal for ordinal, _ in converted.ordinal_offsets)
    # Only rows after a batch file get other ordinals.
    if spool and (ordinal_shift or last_ordinal > min(file_ordinals, default=last_ordinal)):
        assign_ordinals(spark, spool, f"{address}/spool", converted.ordinal_offsets, ordinal_shift)
        spool = (f"{address}/spool",)
    if converted.nans_replaced:
        logger.warning(
            "Stream %s: in %d rows of its batch files NaN or Infinity was read as null.",
            batches[0].stream,
            converted.nans_replaced,
        )
    older = batches[0].table_schema
    batch = replace(
        batches[0],
        paths=(*spool, *converted.paths),
        files=(),
        count=sum(batch.count for batch in batches) + converted.rows,
        closed_at=batches[-1].closed_at,
        table_schema=older.with_metadata(DELETED_AT) if older and converted.has_deletes else older,
    )
    line_count = sum(lines for _, lines in converted.ordinal_offsets)
    return _Part(batch, converted.rows, line_count, converted.has_deletes)


def remove_batch_files(spark: SparkSession, files: Sequence[BatchFile]) -> None:
    """Delete batch files from their storage. Call it after their rows are committed.

    If a file cannot be deleted, the failure is logged as a warning.
    """
    for file in files:
        try:
            remove_file(spark, file.address)
        except Exception as error:  # noqa: BLE001, PERF203  (the rows are safe)
            logger.warning(
                "%s could not be deleted: %s", file.redacted_address, first_error_line(error)
            )
