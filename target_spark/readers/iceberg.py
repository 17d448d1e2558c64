"""Rows and commits of an Iceberg table in a local folder, read by the library pyiceberg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from target_spark.errors import TableError, UnsupportedError
from target_spark.readers.file_locations import check_locations
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
    """Return True if a folder has the metadata of an Iceberg table that is not in a catalog."""
    return table_exists(folder)


def read_runs(folder: Path, /) -> Mapping[str, int]:
    """Return the snapshot id of each run's last commit, by run id, newest run first.

    A run is one load of target-spark, which stores its id in the commits.

    Raises:
        TableError: The metadata file is not in the table's folder.
    """
    metadata_file = find_metadata_file(folder)
    check_locations(folder, [str(metadata_file.absolute())] if metadata_file else [])
    return find_last_commits(
        (snapshot.id, snapshot.marker) for snapshot in read_local_snapshots(folder)
    )


def open_table(folder: Path, version: int | None, /) -> DataScan:
    """Return a scan of all columns of an Iceberg table, at the snapshot with the id ``version``.

    Without a ``version``, the scan reads the newest snapshot.

    Raises:
        TableError: The table was removed in the meantime.
        UnsupportedError: pyiceberg is not installed.
    """
    try:
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
        from pyiceberg.serializers import FromInputFile
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise UnsupportedError(
            "Iceberg tables are read by pyiceberg, which is not installed:"
            " pip install 'tap-core-sdk[read]'."
        ) from error

    class FolderFileIO(PyArrowFileIO):  # type: ignore[misc, unused-ignore]  # no stubs
        """File access for pyiceberg that reads only files in the folder of the table."""

        def new_input(self, location: str) -> PyArrowFile:
            scheme, _, path = self.parse_location(location)
            file = str(Path(path).absolute()) if scheme == "file" else f"{scheme}:{path}"
            check_locations(folder, [file])
            return super().new_input(location)

    metadata_file = find_metadata_file(folder)
    if metadata_file is None:
        raise TableError(f"{folder} is no longer an Iceberg table: its metadata file is missing.")
    # StaticTable.from_metadata imports and calls the class that the table's property py-io-impl
    # names, such as subprocess.Popen.
    location, files = str(metadata_file.absolute()), FolderFileIO()
    metadata = FromInputFile.table_metadata(files.new_input(location))
    table = StaticTable((folder.name,), metadata, location, files, NoopCatalog(folder.name))
    return table.scan(snapshot_id=version)


def get_schema(scan: DataScan, /) -> pa.Schema:
    """Return the columns of a scan of an Iceberg table as an Arrow schema."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(scan.projection(), include_field_ids=False)


def read_rows(scan: DataScan, columns: Sequence[str], /) -> pa.Table:
    """Read columns of all rows of an Iceberg table's scan into an Arrow table.

    Raises:
        TableError: The table has a feature that pyiceberg does not read, or files that are not in
            the table's folder.
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
