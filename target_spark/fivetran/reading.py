"""Batch files as a frame of Spark's, read by its workers.

Rules of the room: each file is one partition, and is read when the frame is; so it must lie there
until the last action on the frame has ended, and each action reads it again. A file that cannot
be read ends the action, and `fault_in` finds in what Spark raises why. What a worker says of it
has no text of the file, whatever it was; the keys are in what the workers are told, and in no
plan, log or error. Source: Fivetran's Partner SDK development guide, "Security".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tap_core.protocols.verdicts import chain_of
from target_spark.errors import BatchFileError
from target_spark.fivetran.batch import File, FileParams, Kind
from target_spark.fivetran.files import fault, one_reader
from target_spark.fivetran.rows import OP as OP
from target_spark.fivetran.rows import ORDINAL as ORDINAL
from target_spark.fivetran.rows import Reading, check_header
from target_spark.fivetran.rows import kept_name as kept_name
from target_spark.fivetran.shapes import Shape
from target_spark.workers import mapped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["OP", "ORDINAL", "check", "fault_in", "kept_name", "read"]

_MARK: Final = "target-spark batch file: "
_TOLD: Final = re.compile(re.escape(_MARK) + r'("(?:[^"\\]|\\.)*")')


def check(files: Sequence[File], params: FileParams, shape: Shape) -> None:
    """Open each file and look at its header, before Spark is asked for anything.

    Raises:
        BatchFileError: one is not there, does not open, or has another header than it should.
    """
    for file in files:
        with one_reader():
            check_header(file, params, shape)


def read(spark: SparkSession, files: Sequence[File], params: FileParams, shape: Shape) -> DataFrame:
    """Return the rows of files as a frame, a partition for each file.

    It has the shape's columns under their names in the table; for each that is no key, where
    there are files of updates, the flag `kept_name`, true where the value stays as it is and
    false else; and `OP` and `ORDINAL`, which no two rows share and which grows from file to file.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    reading = Reading(params, shape, any(file.kind is Kind.UPDATE for file in files))
    schema = from_arrow_schema(reading.schema, prefer_timestamp_ntz=True)
    numbers = spark.range(0, len(files), 1, max(len(files), 1))
    return mapped(numbers, partial(_rows_of, reading, tuple(files)), schema, "batch_files")


def fault_in(error: BaseException) -> BatchFileError | None:
    """Return what a worker said of a file, if that is why an action on a frame failed."""
    for each in chain_of(error):
        if isinstance(each, BatchFileError):
            return each
        if (told := _TOLD.search(str(each))) is not None:
            return BatchFileError(json.loads(told[1]))
    return None


class _WorkerError(Exception):
    """Carries a worker's words through Spark's errors."""

    def __init__(self, error: BatchFileError) -> None:
        super().__init__(_MARK + json.dumps(str(error)))


def _rows_of(reading: Reading, files: Sequence[File], batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of the files whose numbers come; this runs in Spark's workers."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _told(files[number], reading.rows(files[number], number))


def _told(file: File, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of a file; whatever goes wrong is told without what stands in it."""
    try:
        yield from rows
    except BatchFileError as error:
        raise _WorkerError(error) from None
    except Exception as error:  # noqa: BLE001  (its text may be that of a row)
        words = f"cannot be read: {type(error).__name__}. This is a fault of the destination"
        raise _WorkerError(fault(file, words)) from None
