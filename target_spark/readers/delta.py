"""Rows and commits of a Delta table in a local folder, read by the library deltalake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from target_spark.errors import TableError
from target_spark.readers.delta_log_check import SPARK_HINT, check_log, check_paths
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.uris import is_read_as_another_folder
from target_spark.tables.commit_metadata import CommitMetadata, find_last_commits

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

__all__ = ["get_schema", "is_table", "open_table", "read_rows", "read_runs"]

_TYPE_WIDENING: Final = "typeWidening"
_NOT_READ_BY_FILE: Final = ("deletionVectors", "columnMapping")
"""Table features that `_read_files` does not support."""


def is_table(folder: Path, /) -> bool:
    """Return True if a folder has the log of a Delta table, with at least one commit."""
    return any((folder / "_delta_log").glob("*.json"))


def read_runs(folder: Path, /) -> Mapping[str, int]:
    """Return the Delta version of each run's last commit, by run id, newest run first.

    A run is one load of target-spark, which stores its id in the commits.
    """
    return find_last_commits(
        (commit["version"], CommitMetadata.from_json(commit.get("userMetadata")))
        for commit in open_table(folder, None).history()
    )


def open_table(folder: Path, version: int | None, /) -> DeltaTable:
    """Open a Delta table at a version; without ``version``, at the newest.

    Raises:
        TableError: deltalake cannot read the table's log, or the log names files that are not in
            the table's folder.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if is_read_as_another_folder(folder):
        raise TableError(
            f"{folder} cannot be read without Spark, because its path has a backslash or a"
            f" percent-encoded character. {SPARK_HINT}"
        )
    check_log(folder)
    try:
        return DeltaTable(folder, version)
    except DeltaError as error:
        version_text = "" if version is None else f" at version {version}"
        cause = first_error_line(error)  # the lines behind it are a backtrace of Rust
        raise TableError(
            f"{folder} cannot be read{version_text} without Spark: {cause}. {SPARK_HINT}"
        ) from error


def get_schema(table: DeltaTable, /) -> pa.Schema:
    """Return the columns of an open Delta table as an Arrow schema."""
    import pyarrow as pa

    schema = pa.schema(table.schema().to_arrow())
    return pa.schema([field.remove_metadata() for field in schema])


def read_rows(table: DeltaTable, columns: Sequence[str], /) -> pa.Table:
    """Read columns of all rows of an open Delta table into an Arrow table.

    Raises:
        TableError: The table has features that deltalake does not read, a file whose values do
            not have the types of the table, or a file that is not in the table's folder.
    """
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    check_paths(_get_folder(table), paths)
    schema = get_schema(table)
    schema = pa.schema([schema.field(name) for name in columns])
    features = table.protocol().reader_features or []
    if _TYPE_WIDENING in features and not set(_NOT_READ_BY_FILE).intersection(features):
        return _read_files(table, schema)
    try:
        reader = pa.RecordBatchReader.from_stream(table.scan(columns=list(columns)))
        return reader.read_all().cast(schema)
    except (DeltaError, pa.ArrowException) as error:
        raise TableError(
            f"{_get_folder(table)} cannot be read without Spark: {error}. {SPARK_HINT}"
        ) from error


def _get_folder(table: DeltaTable) -> Path:
    return Path(unquote(urlsplit(table.table_uri).path))


def _read_files(table: DeltaTable, schema: pa.Schema) -> pa.Table:
    """Return the rows of a Delta table whose files may have narrower types than the table.

    deltalake 1.6 does not read such tables itself (table feature ``typeWidening``). ``schema`` has
    the columns to return, with the types of the table.
    """
    import pyarrow as pa

    folder = _get_folder(table)
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    rows = [_read_file(folder, file, schema) for file in files]
    return pa.concat_tables([schema.empty_table(), *rows])


def _read_file(folder: Path, file: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Return the rows of one data file of a Delta table, with the columns of the table.

    Args:
        folder: The folder of the table.
        file: The file's path, number of rows and partition values, as in deltalake's
            `get_add_actions`.
        schema: The columns to return. A column that the file does not have gets its partition
            value, or null.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    stored = pq.read_table(
        folder / unquote(file["path"]), partitioning=None, coerce_int96_timestamp_unit="us"
    )
    columns = [
        _cast_column(stored[field.name], field, folder, file["path"])
        if field.name in stored.column_names
        else pa.repeat(pa.scalar(file.get(f"partition.{field.name}"), field.type), len(stored))
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _cast_column(
    values: pa.ChunkedArray, field: pa.Field, folder: Path, path: str
) -> pa.ChunkedArray:
    """Return a column of a data file, cast to its type in the table, which is that of ``field``.

    ``folder`` (of the table) and ``path`` (of the file) are for the error message.

    Raises:
        TableError: A value cannot be represented in this type.
    """
    import pyarrow as pa

    try:
        return values.cast(field.type)
    except pa.ArrowException as error:
        raise TableError(
            f"Column {field.name} of {folder} cannot be read without Spark, because file {path} has"
            f" values that are no {field.type} ({first_error_line(error)}). {SPARK_HINT}"
        ) from error
