"""Parquet files of a Delta table in a local folder: written by Spark, checked and synced to disk.

Files of other writers are never removed. Spark writes a batch to a hidden staging folder named
after the job, and its files are moved to the table's folder before the commit that adds them. The
next run of the same job, which holds the job's lock, removes the staging folders of killed runs.
Files that were moved but not committed are removed only by VACUUM, because a commit whose response
was lost may have added them. Source: the Delta protocol, "Add File and Remove File".
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame

from target_spark.errors import CommitLostError
from target_spark.spark.row_counts import Count
from target_spark.storage.hadoop_fs import flush_table
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.table import Table
from target_spark.writers.commit_checks import check_written_count
from target_spark.writers.delta.log_reader import log_file
from target_spark.writers.parquet_footers import delta_statistics, describe_file_fault, row_count
from target_spark.writers.sql_statements import spark_conf

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "DataFile",
    "check_commit",
    "remove_files",
    "remove_stale_staging",
    "write_arrow_file",
    "write_files",
]

_WITH_BOUNDS: Final = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Spark setting to write timestamps as TIMESTAMP_MICROS. Parquet files have no minimum and maximum
for timestamps in Spark's default type, INT96."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a Delta table that is not committed yet.

    Attributes:
        path: The local path.
        rows: The number of rows.
        size: The size in bytes.
        modified: The modification time, in milliseconds since 1970.
        statistics: The column statistics as JSON, for Delta's log.
    """

    path: Path
    rows: int
    size: int
    modified: int
    statistics: str


def write_files(
    df: DataFrame, table: Table, folder: Path, job: str, count: Count
) -> list[DataFile]:
    """Write a DataFrame as Parquet files into a table's folder, without committing them.

    Args:
        df: The rows.
        table: The table, for error messages.
        folder: The table's folder.
        job: The name of the job; the hidden folder for temporary files is named after it.
        count: Function that takes the number of rows in the files, and returns the number of rows
            in ``df`` (see `Count`).

    Returns:
        The files that have rows.

    Raises:
        RowCountError: The files have more or fewer rows than expected; all of them are removed.
    """

    def write(staging: Path) -> None:
        writer = df.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        with spark_conf(df.sparkSession, _WITH_BOUNDS):
            writer.parquet(to_spark_uri(str(staging)))

    return _stage_files(write, table, folder, job, count)


def write_arrow_file(rows: pa.Table, table: Table, folder: Path, job: str) -> list[DataFile]:
    """Write an Arrow table as one Parquet file into a table's folder, without committing it.

    Args:
        rows: The rows.
        table: The table, for error messages.
        folder: The table's folder.
        job: The name of the job; the hidden folder for temporary files is named after it.

    Returns:
        The file; an empty list if there are no rows.
    """
    import pyarrow.parquet as pq

    def write(staging: Path) -> None:
        staging.mkdir(parents=True)
        name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        pq.write_table(rows, staging / name, compression="snappy")

    return _stage_files(write, table, folder, job, lambda _written: rows.num_rows)


def _stage_files(
    write: Callable[[Path], None], table: Table, folder: Path, job: str, count: Count
) -> list[DataFile]:
    """Call ``write`` to create Parquet files in a hidden folder, and move the files to ``folder``.

    Return the moved files. Files without rows are not moved.

    Raises:
        RowCountError: The files have more or fewer rows than ``count`` returns; no file is moved.
    """
    staging = folder / f"{_staging_prefix(job)}{uuid.uuid4().hex}"
    try:
        write(staging)
        paths = sorted(staging.glob("*.parquet"))
        files = [_data_file(path) for path in paths]
        written = sum(file.rows for file in files)
        check_written_count(table, count(written), written)
        return [
            replace(file, path=file.path.rename(folder / file.path.name))
            for file in files
            if file.rows
        ]
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def remove_stale_staging(folder: Path, job: str) -> None:
    """Remove the folders for temporary files that killed runs of a job have left.

    The caller must hold the lock of the job.
    """
    for leftover in folder.glob(f"{_staging_prefix(job)}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def check_commit(table: Table, folder: Path, version: int) -> int:
    """Check the local files that a commit adds, and flush the files and the Delta log to disk.

    Return the total size in bytes of these files.

    Args:
        table: The table, for error messages.
        folder: The table's folder.
        version: The Delta version that the commit created.

    Raises:
        CommitLostError: A file is missing, or its size or row count differs from the log.
    """
    log = log_file(folder, version)
    nbytes = 0
    files = [log]
    for add in _read_add_actions(log):
        path = _local_path(folder, add["path"])
        if path is None:
            continue
        declared_rows = json.loads(add["stats"])["numRecords"] if add.get("stats") else None
        fault = describe_file_fault(path, add["size"], declared_rows)
        if fault:
            raise CommitLostError(
                f"Commit {version} of table {table.name} names the file {path.name}, which"
                f" {fault}. No state that covers its rows is emitted; restore the file, or start"
                " again from a state before this commit."
            )
        nbytes += add["size"]
        files.append(path)
    flush_table(folder, files)
    return nbytes


def remove_files(files: Iterable[DataFile]) -> None:
    """Delete data files. The caller ensures that no finished or pending commit adds them."""
    for file in files:
        file.path.unlink(missing_ok=True)


def _staging_prefix(job: str) -> str:
    return f".target-spark-{hashlib.sha256(job.encode()).hexdigest()[:16]}-"


def _data_file(path: Path) -> DataFile:
    status = path.stat()
    modified = status.st_mtime_ns // 1_000_000
    return DataFile(path, row_count(path), status.st_size, modified, delta_statistics(path))


def _read_add_actions(log: Path) -> Iterator[dict[str, Any]]:
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith('{"add"'):
                yield json.loads(line)["add"]


def _local_path(folder: Path, path: str) -> Path | None:
    """Return the local path of a file that a Delta commit adds, or None if the file is remote."""
    address = urlsplit(path)
    if address.scheme not in {"", "file"}:
        return None
    return folder / unquote(address.path)
