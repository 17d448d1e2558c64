"""Rows and commits of an Iceberg table in a local folder, read by the library pyiceberg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from target_spark.errors import TableError, UnsupportedError
from target_spark.storage.uris import to_local_folder
from target_spark.tables.commit_metadata import find_last_commits
from target_spark.tables.iceberg_metadata import (
    find_metadata_file,
    read_local_snapshots,
    table_exists,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import DataScan

__all__ = ["get_schema", "is_table", "open_table", "read_rows", "read_runs"]


def is_table(folder: Path, /) -> bool:
    """Return True if a folder has the metadata of an Iceberg table that needs no catalog."""
    return table_exists(folder)


def read_runs(folder: Path, /) -> Mapping[str, int]:
    """Return the snapshot id after the last commit of each run, by run id, newest run first."""
    return find_last_commits(
        (snapshot.id, snapshot.marker) for snapshot in read_local_snapshots(folder)
    )


def open_table(folder: Path, version: int | None, /) -> DataScan:
    """Open a table at a snapshot, or at the newest snapshot; return a scan of all columns.

    Raises:
        TableError: The table was removed in the meantime.
        UnsupportedError: pyiceberg is not installed.
    """
    try:
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise UnsupportedError(
            "Iceberg tables are read by pyiceberg, which is not installed:"
            " pip install 'tap-core-sdk[read]'."
        ) from error
    metadata = find_metadata_file(folder)
    if metadata is None:
        raise TableError(f"{folder} is no longer an Iceberg table: its metadata file is missing.")
    table = StaticTable.from_metadata(str(metadata))
    return table.scan(snapshot_id=version)


def get_schema(scan: DataScan, /) -> pa.Schema:
    """Return the columns of a scan."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(scan.projection(), include_field_ids=False)


def read_rows(scan: DataScan, columns: Sequence[str], /) -> pa.Table:
    """Return columns of the rows of a scan.

    Raises:
        TableError: The table has a feature that pyiceberg does not read.
    """
    selected = scan.select(*columns)
    try:
        # pyiceberg returns the string and list types of the files, which may differ between scans.
        return selected.to_arrow().cast(get_schema(selected)).select(list(columns))
    except (NotImplementedError, ValueError) as error:
        folder = to_local_folder(scan.table_metadata.location)
        raise TableError(
            f"{folder} cannot be read without Spark: {error}. Read it with"
            " spark.read.format('iceberg')."
        ) from error
