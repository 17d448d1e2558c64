"""Batch files as a DataFrame, read by Spark's workers.

Each file is one partition and is read by each action, so it must exist until the last action on the
DataFrame has ended. A file that cannot be read fails the action, and `find_file_error` finds the
reason in Spark's error. Errors of a worker never contain text of the file. The keys are in the data
that Spark sends to workers, and in no plan, log or error.

Source: Fivetran's Partner SDK development guide, "Security".
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
from target_spark.fivetran.file_reader import file_error, get_reading_lock
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
_MARKED_MESSAGE: Final = re.compile(re.escape(_MARK) + r'("(?:[^"\\]|\\.)*")')


def validate_files(
    files: Sequence[RequestFile], params: FileParams, fivetran_schema: FivetranSchema
) -> None:
    """Open each batch file and check its header, before a Spark job starts.

    Raises:
        BatchFileLoadError: A file is missing, cannot be decrypted, or has an invalid header.
    """
    for file in files:
        with get_reading_lock():
            check_header(file, params, fivetran_schema)


def read_files(
    spark: SparkSession,
    files: Sequence[RequestFile],
    params: FileParams,
    fivetran_schema: FivetranSchema,
) -> DataFrame:
    """Return the rows of batch files as a DataFrame with one partition per file.

    Besides the columns of the table, the DataFrame has two columns. `OP` is the kind of the file,
    as a number. `ORDINAL` is a unique number that increases from row to row and from file to file.
    If there are update files, there is also a boolean column for each non-key column. It is true if
    the row does not change the column's value in the table; see `unmodified_flag`.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    reader = RowReader(params, fivetran_schema, any(file.kind is FileKind.UPDATE for file in files))
    schema = from_arrow_schema(reader.schema, prefer_timestamp_ntz=True)
    numbers = spark.range(0, len(files), 1, max(len(files), 1))
    return map_in_arrow(numbers, partial(_read_rows, reader, tuple(files)), schema, "batch_files")


def find_file_error(error: BaseException) -> BatchFileLoadError | None:
    """Return the error of a batch file that caused a failed Spark action.

    Return None if the action failed for another reason.

    Args:
        error: The error of the Spark action.
    """
    for each in iterate_causes(error):
        if isinstance(each, BatchFileLoadError):
            return each
        if (match := _MARKED_MESSAGE.search(str(each))) is not None:
            return BatchFileLoadError(json.loads(match[1]))
    return None


class _WorkerError(Exception):
    """Raised in a Spark worker to pass the message of a `BatchFileLoadError` to the driver."""

    def __init__(self, error: BatchFileLoadError) -> None:
        super().__init__(_MARK + json.dumps(str(error)))


def _read_rows(
    reader: RowReader, files: Sequence[RequestFile], batches: Iterator[Any]
) -> Iterator[Any]:
    """Yield the rows of batch files as record batches. This function runs in Spark's workers.

    Args:
        reader: The reader of the files.
        files: All files of the batch.
        batches: Record batches with the indexes of the files to read.
    """
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _iterate_rows_safely(files[number], reader.rows(files[number], number))


def _iterate_rows_safely(file: RequestFile, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of a file, and raise each error as a `_WorkerError`.

    Its message contains no content of the file.
    """
    try:
        yield from rows
    except BatchFileLoadError as error:
        raise _WorkerError(error) from None
    except Exception as error:  # noqa: BLE001  (its text may be that of a row)
        words = f"cannot be read: {type(error).__name__}. This is a bug of the destination"
        raise _WorkerError(file_error(file, words)) from None
