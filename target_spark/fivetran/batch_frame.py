"""Batch files as a frame of Spark's, read by its workers.

Rules of the room: each file is one partition, and is read when the frame is; so it must lie there
until the last action on the frame has ended, and each action reads it again. A file that cannot
be read ends the action, and `find_file_error` finds in what Spark raises why. What a worker says
of it
has no text of the file, whatever it was; the keys are in what the workers are told, and in no
plan, log or error. Source: Fivetran's Partner SDK development guide, "Security".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tap_core.protocols.error_classification import iterate_causes
from target_spark.errors import BatchFileLoadError
from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.file_reader import file_error, one_reader
from target_spark.fivetran.row_reader import OP as OP
from target_spark.fivetran.row_reader import ORDINAL as ORDINAL
from target_spark.fivetran.row_reader import RowReader, check_header
from target_spark.fivetran.row_reader import unmodified_flag as unmodified_flag
from target_spark.fivetran.table_schema import FivetranSchema
from target_spark.spark.arrow_workers import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["OP", "ORDINAL", "find_file_error", "read_files", "unmodified_flag", "validate_files"]

_MARK: Final = "target-spark batch file: "
_TOLD: Final = re.compile(re.escape(_MARK) + r'("(?:[^"\\]|\\.)*")')


def validate_files(files: Sequence[RequestFile], params: FileParams, shape: FivetranSchema) -> None:
    """Open each file and look at its header, before Spark is asked for anything.

    Raises:
        BatchFileError: one is not there, does not open, or has another header than it should.
    """
    for file in files:
        with one_reader():
            check_header(file, params, shape)


def read_files(
    spark: SparkSession, files: Sequence[RequestFile], params: FileParams, shape: FivetranSchema
) -> DataFrame:
    """Return the rows of files as a frame, a partition for each file.

    It has the shape's columns under their names in the table; for each that is no key, where
    there are files of updates, the flag `unmodified_flag`, true where the value stays as it is and
    false else; and `OP` and `ORDINAL`, which no two rows share and which grows from file to file.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    reading = RowReader(params, shape, any(file.kind is FileKind.UPDATE for file in files))
    schema = from_arrow_schema(reading.schema, prefer_timestamp_ntz=True)
    numbers = spark.range(0, len(files), 1, max(len(files), 1))
    return map_in_arrow(numbers, partial(_read_rows, reading, tuple(files)), schema, "batch_files")


def find_file_error(error: BaseException) -> BatchFileLoadError | None:
    """Return what a worker said of a file, if that is why an action on a frame failed."""
    for each in iterate_causes(error):
        if isinstance(each, BatchFileLoadError):
            return each
        if (told := _TOLD.search(str(each))) is not None:
            return BatchFileLoadError(json.loads(told[1]))
    return None


class _WorkerError(Exception):
    """Carries a worker's words through Spark's errors."""

    def __init__(self, error: BatchFileLoadError) -> None:
        super().__init__(_MARK + json.dumps(str(error)))


def _read_rows(
    reading: RowReader, files: Sequence[RequestFile], batches: Iterator[Any]
) -> Iterator[Any]:
    """Yield the rows of the files whose numbers come; this runs in Spark's workers."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _told(files[number], reading.rows(files[number], number))


def _told(file: RequestFile, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of a file; whatever goes wrong is told without what stands in it."""
    try:
        yield from rows
    except BatchFileLoadError as error:
        raise _WorkerError(error) from None
    except Exception as error:  # noqa: BLE001  (its text may be that of a row)
        words = f"cannot be read: {type(error).__name__}. This is a fault of the destination"
        raise _WorkerError(file_error(file, words)) from None
