"""Rows and commits of a Parquet table, read from the files that the table's manifest lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from target_spark.readers.file_locations import check_locations
from target_spark.tables.parquet_manifest import (
    MANIFEST,
    CommitManifest,
    get_commit_number,
    open_dataset,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset

__all__ = ["get_schema", "is_table", "open_table", "read_rows", "read_runs"]


def is_table(folder: Path, /) -> bool:
    """Return True if a folder has the manifest of a Parquet table that target-spark has loaded."""
    return (folder / MANIFEST).is_file()


def read_runs(folder: Path, /) -> Mapping[str, int]:
    """Return the number of the last commit of each run, by run id, newest run first.

    A run is one load of target-spark, which stores its id in the table's manifest.
    """
    manifest = CommitManifest.read(folder) or CommitManifest()
    return dict(sorted(manifest.runs.items(), key=lambda run: -run[1]))


def open_table(folder: Path, version: int | None, /) -> pyarrow.dataset.Dataset | None:
    """Open a Parquet table as it was after the commit with the number ``version``.

    Without a ``version``, open the newest one. Return None if the table has no files.

    Raises:
        TableError: The manifest is not valid, or names a file that is not in the folder.
    """
    manifest = CommitManifest.read(folder) or CommitManifest()
    if version is not None:
        earlier_parts = tuple(name for name in manifest.parts if get_commit_number(name) <= version)
        manifest = replace(manifest, parts=earlier_parts)
    check_locations(folder, manifest.parts)
    return open_dataset(folder, manifest)


def get_schema(table: pyarrow.dataset.Dataset | None, /) -> pa.Schema:
    """Return the columns of an open Parquet table as an Arrow schema.

    Without a ``table``, because it has no files, the schema is empty.
    """
    import pyarrow as pa

    return pa.schema([]) if table is None else table.schema


def read_rows(table: pyarrow.dataset.Dataset | None, columns: Sequence[str], /) -> pa.Table:
    """Read columns of all rows of an open Parquet table into an Arrow table.

    Without a ``table``, because it has no files, the result is empty.
    """
    if table is None:
        return get_schema(table).empty_table()
    return table.to_table(columns=list(columns))
