"""DataFrame of the rows in Fivetran's batch files, which Spark's workers read.

Each file is one partition. Every Spark action reads the files again, so they must exist until the
last action has ended. If a file cannot be read, the action fails, and `find_file_error` extracts
the reason. Errors never contain text of a file. The AES keys of the files are sent to workers, but
are not part of a query plan, log or error.

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
from target_spark.fivetran.file_reader import READING_LOCK, file_error
from target_spark.fivetran.row_reader import RowReader, check_header
from target_spark.fivetran.table_schema import FivetranSchema
from target_spark.spark.arrow_workers import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["find_file_error", "read_files", "validate_files"]

_MARK: Final = "target-spark batch file: "
"""Text in a Spark error that precedes the JSON-encoded message of a `BatchFileLoadError`."""

_MARKED_MESSAGE: Final = re.compile(re.escape(_MARK) + r'("(?:[^"\\]|\\.)*")')


def validate_files(
    files: Sequence[RequestFile], params: FileParams, fivetran_schema: FivetranSchema
) -> None:
    """Open each batch file and check its header, to report errors before a Spark job starts.

    Raises:
        BatchFileLoadError: A file is missing, cannot be decrypted, or has an invalid header.
    """
    for file in files:
        with READING_LOCK:
            check_header(file, params, fivetran_schema)


def read_files(
    spark: SparkSession,
    files: Sequence[RequestFile],
    params: FileParams,
    fivetran_schema: FivetranSchema,
) -> DataFrame:
    """Return the rows of Fivetran's batch files as a DataFrame with one partition per file.

    In addition to the table's columns, the DataFrame has these columns of
    `target_spark.fivetran.row_reader`:

    - ``OP``: the number of the `FileKind` of the row's file.
    - ``ORDINAL``: a unique number that increases from row to row and from file to file.
    - If there are update files, a boolean column for each non-key column, named by
      ``unmodified_flag``. True means that the row keeps the old value of the column in the table.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    reader = RowReader(params, fivetran_schema, any(file.kind is FileKind.UPDATE for file in files))
    schema = from_arrow_schema(reader.schema, prefer_timestamp_ntz=True)
    indexes = spark.range(0, len(files), 1, max(len(files), 1))
    return map_in_arrow(indexes, partial(_read_rows, reader, tuple(files)), schema, "batch_files")


def find_file_error(error: BaseException) -> BatchFileLoadError | None:
    """Return the error of a batch file, if it is the cause of the error of a Spark action.

    If the action failed for another reason, return None.
    """
    for cause in iterate_causes(error):
        if isinstance(cause, BatchFileLoadError):
            return cause
        if (match := _MARKED_MESSAGE.search(str(cause))) is not None:
            return BatchFileLoadError(json.loads(match[1]))
    return None


class _WorkerError(Exception):
    """Error in a Spark worker that carries the message of a `BatchFileLoadError` to the driver."""

    def __init__(self, error: BatchFileLoadError) -> None:
        super().__init__(_MARK + json.dumps(str(error)))


def _read_rows(
    reader: RowReader, files: Sequence[RequestFile], batches: Iterator[Any]
) -> Iterator[Any]:
    """Yield the rows of batch files as Arrow record batches, in a Spark worker.

    The only column of ``batches`` has the indexes of the files to read in the list ``files``.
    """
    for batch in batches:
        for index in batch.column(0).to_pylist():
            yield from _iterate_rows_safely(files[index], reader.rows(files[index], index))


def _iterate_rows_safely(file: RequestFile, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of a batch file; convert any error to a `_WorkerError`.

    The text of an unexpected error is left out, because it may contain values of a row.
    """
    try:
        yield from rows
    except BatchFileLoadError as error:
        raise _WorkerError(error) from None
    except Exception as error:  # noqa: BLE001  (its text may be that of a row)
        reason = f"cannot be read: {type(error).__name__}. This is a bug of the destination"
        raise _WorkerError(file_error(file, reason)) from None
