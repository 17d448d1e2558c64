"""Plain Parquet tables: a folder of Parquet files, and a manifest that lists the committed files.

- Spark writes a batch to a staging folder. Its files are moved to ``part-<commit>-<i>.parquet``.
  They are committed when a new manifest that lists them replaces the old one by a rename.
- Before each write, temporary manifests of interrupted commits are removed, so that their rename
  can no longer succeed. Then the Parquet files that the manifest does not list are removed.
- Readers list the folder and may see the files of a commit shortly before it is complete. After a
  resume no row is in the folder twice.

Upserts and type changes are not supported. New columns exist only in new files, and readers merge
the schemas (``mergeSchema``). The folder must be on a local file system.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import SchemaChange, TableSchema
from target_spark.errors import ConflictError, UnsupportedError
from target_spark.spark.row_counts import counted
from target_spark.storage.hadoop_fs import flush_to_disk, remove_folder
from target_spark.storage.lock_files import open_lock_file
from target_spark.storage.uris import to_local_folder, to_spark_uri
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.identifiers import quote
from target_spark.tables.parquet_manifest import MANIFEST, UNFINISHED, CommitManifest
from target_spark.tables.table import CommitStats, MaintenanceOptions, Table, TableLayout
from target_spark.writers.base import MergeKeys, VersionDelete
from target_spark.writers.commit_checks import (
    check_written_count,
    next_metadata,
    table_removed_error,
    table_replaced_error,
)
from target_spark.writers.parquet_footers import row_count
from target_spark.writers.spark_types import to_ddl
from target_spark.writers.sql_statements import check_folder_is_empty

__all__ = ["ParquetWriter", "get_commit_time"]

_STAGING = "_staging"
_PART_NAME = re.compile(r"part-\d{8,}-\d{5}\.parquet")


@dataclass
class _ParquetTableState:
    """Cached facts about one Parquet table, which the writer keeps during a run.

    Attributes:
        manifest: The manifest that this run last read or wrote; None if the table had no manifest.
        was_read: True once this run has looked for the manifest or has written it.
        sources: The original names of renamed columns, to be stored in the next manifest.
        acknowledged: The commit metadata of the run's last successful commit.
        effect: The statistics of the last successful commit.
    """

    manifest: CommitManifest | None = None
    was_read: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    acknowledged: CommitMetadata | None = None
    effect: CommitStats = field(default_factory=CommitStats)

    def set_manifest(self, manifest: CommitManifest | None) -> None:
        """Store the manifest that the table now has; None if the table has no manifest."""
        self.manifest, self.was_read = manifest, True


class ParquetWriter:
    """Writer of plain Parquet tables (folders) for one run. It caches the tables' manifests."""

    keeps_batch = False

    def __init__(self) -> None:
        self._tables: defaultdict[str, _ParquetTableState] = defaultdict(_ParquetTableState)

    def can_widen(self, _old: str, _new: str, /) -> bool:
        """Return False, since a Parquet column's type cannot be changed in place."""
        return False

    def get_column_types(self, _spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
        """Return the type (DDL) of each column, in table order, or None if there is no table.

        Raises:
            TableError: The folder has files that target-spark did not write, or the table was
                removed.
        """
        folder = _get_folder(table)
        manifest = self._read_manifest(table)
        self._tables[table.key].set_manifest(manifest)
        if manifest is None:
            check_folder_is_empty(folder, "Parquet", allowed=_PART_NAME)
            return None
        return manifest.schema

    def create(
        self,
        spark: SparkSession,
        /,
        table: Table,
        table_schema: TableSchema,
        layout: TableLayout,  # noqa: ARG002
        *,
        has_rows: bool = False,
    ) -> None:
        """Create a Parquet table with one file that has all columns but no rows.

        If ``has_rows`` is True, nothing is written, because writing the first rows creates the
        table.
        """
        self.annotate(spark, table, table_schema)
        if has_rows:
            return
        columns = (
            F.lit(None).cast(column.type.ddl).alias(column.name) for column in table_schema.columns
        )
        with self._committing(table):
            if CommitManifest.read(_get_folder(table)) is None:  # another run may have created it
                self._write_files(
                    spark.range(0).select(*columns), table, self._open_manifest(table), 0
                )

    def describe_layout_mismatch(
        self,
        _spark: SparkSession,
        _table: Table,
        _table_schema: TableSchema,
        _layout: TableLayout,
        /,
    ) -> str | None:
        """Return None, since Parquet tables are never partitioned."""
        return None

    def get_partition_columns(self, _spark: SparkSession, _table: Table, /) -> Collection[str]:
        """Return an empty collection, since Parquet tables are never partitioned."""
        return ()

    def alter(self, _spark: SparkSession, /, table: Table, changes: Sequence[SchemaChange]) -> None:
        """Accept new columns and fields, which the next written files will contain.

        Raises:
            UnsupportedError: A change widens the type of an existing column, which a Parquet table
                does not allow.
        """
        for change in changes:
            if change.kind == "widen":
                raise UnsupportedError(
                    f"Parquet cannot change the type of {'.'.join(change.path)} of table"
                    f" {table.name} to {change.ddl}."
                )

    def sources(self, _spark: SparkSession, /, table: Table) -> Mapping[str, str]:
        """Return the source property of each renamed column: ``{"`user_id`": "user-id"}``.

        Columns that the manifest in the folder does not list yet are included.
        """
        manifest = CommitManifest.read(_get_folder(table)) or CommitManifest()
        return {**manifest.sources, **self._tables[table.key].sources}

    def annotate(self, _spark: SparkSession, /, table: Table, table_schema: TableSchema) -> None:
        """Store the property names of renamed columns, to write them into the next manifest.

        Column comments are ignored, because Parquet files have none.
        """
        state = self._tables[table.key]
        state.sources = {**state.sources, **table_schema.sources}

    def drop_not_null(self, _spark: SparkSession, /, table: Table, keep: Collection[str]) -> None:
        """Do nothing, since all columns of a Parquet table are nullable."""

    def append(
        self, table: Table, df: DataFrame, commit: CommitMetadata, rows: int | None = None
    ) -> CommitStats:
        """Add the rows of a batch to a table in one commit. ``rows`` is their number, if known."""
        with self._preparing(table, commit) as (manifest, is_made):
            if not is_made:
                self._write_files(df, table, manifest, rows)
        return self._tables[table.key].effect

    def upsert(
        self, table: Table, _df: DataFrame, _keys: MergeKeys, _commit: CommitMetadata, /
    ) -> CommitStats:
        """Raise an `UnsupportedError`, since Parquet tables have no MERGE."""
        raise UnsupportedError(
            f"Parquet cannot replace rows by key (table {table.name}). Set format to delta,"
            " or write_mode to append: then a row that is sent again is in the table twice."
        )

    def history(
        self, table: Table, _df: DataFrame, _keys: MergeKeys, _commit: CommitMetadata, /
    ) -> CommitStats:
        """Raise an `UnsupportedError`, since Parquet tables keep no row versions (SCD2)."""
        raise UnsupportedError(
            f"Parquet cannot end a version of a row (table {table.name}). Set format to delta,"
            " or write_mode to append: then the table has every version, without its end."
        )

    def replace(
        self, table: Table, df: DataFrame, commit: CommitMetadata, rows: int | None = None
    ) -> CommitStats:
        """Replace all rows of a table. Readers may briefly see both old and new rows.

        ``rows`` is the number of new rows, if known.
        """
        with self._preparing(table, commit) as (manifest, is_made):
            if not is_made:
                without_files = CommitManifest(manifest.commit, manifest.marker)
                self._write_files(df, table, without_files, rows)
                self._open_manifest(table)  # removes the files of the replaced rows
        return self._tables[table.key].effect

    def delete_versions(
        self,
        _spark: SparkSession,
        /,
        table: Table,
        _deletion: VersionDelete,
        _commit: CommitMetadata,
    ) -> CommitStats:
        """Raise an `UnsupportedError`, since rows cannot be deleted from a Parquet table."""
        raise UnsupportedError(
            f"Parquet cannot remove the rows of other versions (table {table.name}). Set format"
            " to delta, or write_mode to overwrite."
        )

    def maintain(self, _spark: SparkSession, /, table: Table, options: MaintenanceOptions) -> None:
        """Do nothing, since the settings `compact` and `retain_days` are errors for Parquet."""

    def commit_empty(self, _spark: SparkSession, /, table: Table, commit: CommitMetadata) -> None:
        """Write a manifest with the same files, to store metadata such as the newest state."""
        with self._preparing(table, commit) as (manifest, _):
            self._write_manifest(table, manifest)

    def get_last_metadata(
        self, _spark: SparkSession, table: Table, _known: CommitMetadata | None = None
    ) -> CommitMetadata | None:
        """Return the metadata of target-spark's newest commit, or None if there is no manifest."""
        manifest = CommitManifest.read(_get_folder(table))
        return None if manifest is None else manifest.marker

    def is_empty(self, _spark: SparkSession, /, table: Table) -> bool:
        """Return True if the table does not exist or has no committed file."""
        manifest = CommitManifest.read(_get_folder(table))
        return manifest is None or not manifest.parts

    def rows(self, spark: SparkSession, /, table: Table) -> DataFrame:
        """Return the rows of a table's committed files as a DataFrame."""
        folder = _get_folder(table)
        manifest = CommitManifest.read(folder) or CommitManifest()
        parts = [to_spark_uri(str(folder / name)) for name in manifest.parts]
        schema = ", ".join(f"{quote(name)} {ddl}" for name, ddl in manifest.schema.items())
        if not parts:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*parts)

    def drop(self, spark: SparkSession, /, table: Table) -> None:
        """Delete the table's folder with all its files."""
        remove_folder(spark, str(_get_folder(table)))
        state = self._tables[table.key]
        state.manifest, state.was_read = None, False

    # Commits

    @contextmanager
    def _preparing(
        self, table: Table, commit: CommitMetadata
    ) -> Iterator[tuple[CommitManifest, bool]]:
        """Context manager: lock a table, and yield the manifest to write, and a flag.

        The flag is True if an earlier attempt has already written a manifest with ``commit``.
        """
        with self._committing(table):
            manifest = self._open_manifest(table, commit)
            state = self._tables[table.key]
            acknowledged = commit.has_same_batch(state.acknowledged)
            marker = next_metadata(manifest.marker, commit, table, acknowledged=acknowledged)
            yield replace(manifest, marker=marker), commit.has_same_batch(manifest.marker)
            state.acknowledged = marker

    def _read_manifest(self, table: Table) -> CommitManifest | None:
        """Return the table's manifest, or None if the table has no manifest.

        Raises:
            TableError: The manifest that this run has read or written no longer exists.
        """
        manifest = CommitManifest.read(_get_folder(table))
        if manifest is None and self._tables[table.key].manifest is not None:
            raise table_removed_error(table)
        return manifest

    def _open_manifest(self, table: Table, commit: CommitMetadata | None = None) -> CommitManifest:
        """Return the table's manifest, after removing the files of unfinished commits.

        Args:
            table: The table.
            commit: The commit about to be made, or None. A manifest with this commit causes no
                conflict: an earlier attempt may have succeeded although it reported an error.

        Raises:
            ConflictError: Another run has written a manifest since this run last read it.
            TableError: The manifest no longer exists.
        """
        folder = _get_folder(table)
        _remove_unfinished(folder)
        current = self._read_manifest(table)
        is_own = (
            current is not None and commit is not None and commit.has_same_batch(current.marker)
        )
        state = self._tables[table.key]
        is_unchanged = not state.was_read or current == state.manifest
        state.set_manifest(current)
        if not (is_own or is_unchanged):
            raise ConflictError(f"Another run has written to table {table.name} at the same time.")
        manifest = current or CommitManifest()
        _remove_uncommitted_files(folder, manifest)
        return manifest

    def _write_files(
        self, df: DataFrame, table: Table, base: CommitManifest, expected: int | None
    ) -> None:
        """Write rows as files, and then a manifest that lists the old and the new files.

        Args:
            df: The rows.
            table: The table.
            base: The manifest to extend.
            expected: The number of rows; None if unknown.

        Raises:
            RowCountError: The files have more or fewer rows than expected. No manifest is written.
        """
        folder = _get_folder(table)
        # The name is random, because executors of a dead run may still write to theirs.
        staging = folder / _STAGING / uuid.uuid4().hex
        current = self._tables[table.key].manifest or CommitManifest()
        df = _with_all_columns(df, current.schema)
        rows, count = counted(df, expected)
        rows.write.parquet(f"file://{staging}")
        written = sum(map(row_count, staging.glob("part-*.parquet")))
        check_written_count(table, count(written), written)
        commit = base.commit + 1
        names = _move_files(staging, folder, commit)
        types = {column.name: to_ddl(column.dataType) for column in df.schema.fields}
        schema = {**base.schema, **types}
        nbytes = sum((folder / name).stat().st_size for name in names)
        effect = CommitStats(inserted=written, files=len(names), nbytes=nbytes)
        # Before the manifest, which may be complete even if writing it raises an error.
        self._tables[table.key].effect = effect
        self._write_manifest(
            table,
            CommitManifest(commit, base.marker, (*base.parts, *names), schema, runs=base.runs),
        )

    def _write_manifest(self, table: Table, manifest: CommitManifest) -> None:
        """Replace the JSON file that lists the files of a table and its last commits.

        The renamed columns and the run of the commit are added to ``manifest`` first.

        Raises:
            TableError: The manifest is not the one that this run last read or wrote.
        """
        state = self._tables[table.key]
        before = state.manifest or CommitManifest()
        sources = {**before.sources, **state.sources}
        runs = dict(manifest.runs)
        if manifest.marker is not None:
            runs[manifest.marker.run] = manifest.commit
        manifest = replace(manifest, sources=sources, runs=runs)
        if self._read_manifest(table) != state.manifest:  # this run holds the lock
            raise table_replaced_error(table)
        manifest.write(_get_folder(table))
        state.set_manifest(manifest)

    @contextmanager
    def _committing(self, table: Table) -> Iterator[None]:
        """Context manager: lock the table's folder against other runs while the block commits.

        Raises:
            TableError: The table was removed before or during the block.
        """
        self._read_manifest(table)  # before the lock, whose file would create the folder again
        with _locked(_get_folder(table)):
            try:
                yield
            except FileNotFoundError:
                self._read_manifest(table)  # raises TableError if the table is gone
                raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Context manager: hold a folder's lock file, so that only one run writes to the folder."""
    lock = folder / "_target_spark" / "commit.lease"
    file = open_lock_file(lock, os.O_RDWR | os.O_CREAT, in_warehouse=True)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _with_all_columns(df: DataFrame, schema: Mapping[str, str]) -> DataFrame:
    """Return a DataFrame with all columns of ``schema``; columns missing in ``df`` are null.

    Each file needs all columns, because some readers get the table's columns from only one file.
    """
    new = [name for name in df.columns if name not in schema]
    missing = {
        name: F.lit(None).cast(ddl) for name, ddl in schema.items() if name not in df.columns
    }
    if not missing:
        return df
    return df.withColumns(missing).select(*map(quote, (*schema, *new)))


def get_commit_time(table: Table) -> int:
    """Return the time of a Parquet table's last commit, in milliseconds since 1970.

    This is the modification time of the table's manifest.
    """
    return (_get_folder(table) / MANIFEST).stat().st_mtime_ns // 1_000_000


def _get_folder(table: Table) -> Path:
    """Return the local folder of a table.

    Raises:
        UnsupportedError: The table is at a remote URL.
    """
    folder = to_local_folder(table.path)
    if folder is None:
        raise UnsupportedError(
            f"Parquet tables can only be written to folders of this machine, not to {table.path}."
            " Set format to delta to write to this location."
        )
    return folder


def _remove_unfinished(folder: Path) -> None:
    """Remove temporary manifest files that interrupted commits have left in a table's folder."""
    for manifest in folder.glob(f"{MANIFEST}*{UNFINISHED}"):
        manifest.unlink()


def _remove_uncommitted_files(folder: Path, manifest: CommitManifest) -> None:
    """Remove the staging folder, and the Parquet files that the manifest does not list.

    Such files are left over from commits that did not finish.
    """
    shutil.rmtree(folder / _STAGING, ignore_errors=True)
    if not folder.is_dir():
        return
    listed = set(manifest.parts)
    for file in folder.iterdir():
        if _PART_NAME.fullmatch(file.name) and file.name not in listed:
            file.unlink()


def _move_files(staging: Path, folder: Path, commit: int) -> list[str]:
    """Move the files of a commit from the staging folder to the table's folder.

    Return their new names, which contain the number ``commit``. The files are flushed to disk.
    """
    names: list[str] = []
    for number, part in enumerate(sorted(staging.glob("part-*.parquet"))):
        flush_to_disk(part)
        names.append(f"part-{commit:08}-{number:05}.parquet")
        part.replace(folder / names[-1])
    flush_to_disk(folder)
    shutil.rmtree(folder / _STAGING, ignore_errors=True)
    return names
