"""Plain Parquet: a folder of parts, and a manifest that says which of them count.

Rules of the room: Spark writes a batch under a staging name; its files are moved in as
``part-<commit>-<i>.parquet`` and count from the moment the manifest that lists them is
renamed into place. Before a write, parts of ours that no manifest lists are removed: they
are of a commit that did not come to its end. A manifest that waits for its name is removed
before them, so that a rename of it which is late comes to nothing. Readers list the folder,
so they may see a commit's parts a moment early; what is promised is that nothing is
there twice after a resume.

There is no upsert and no change of a type: new columns come with new parts, and readers
merge the schemas (``mergeSchema``). Folders must be on this machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import SchemaChange, TableSchema
from target_spark.errors import ConflictError, TableError, UnsupportedError
from target_spark.loader.ledger import CommitMetadata
from target_spark.spark.observation import counted
from target_spark.storage.hadoop_fs import remove_folder, sync
from target_spark.storage.lock_files import open_lease
from target_spark.storage.uris import to_local_folder, to_spark_uri
from target_spark.tables.identifiers import quote
from target_spark.tables.model import CommitStats, MaintenanceOptions, Table, TableLayout
from target_spark.writers.base import (
    MergeKeys,
    VersionDelete,
    check_count,
    next_marker,
    replaced_meanwhile,
    table_removed_error,
    to_ddl,
)
from target_spark.writers.parquet_footers import row_count

__all__ = ["CommitManifest", "ParquetWriter"]

_MANIFEST = "_manifest.json"
_UNFINISHED = ".new"
_STAGING = "_staging"
_OURS = re.compile(r"part-\d{8,}-\d{5}\.parquet")


@dataclass(frozen=True, slots=True)
class CommitManifest:
    """What a folder holds: the number of its last commit, its marker, parts and columns.

    ``sources`` is what `Layout.sources` says of its columns.
    """

    commit: int = 0
    marker: CommitMetadata | None = None
    parts: tuple[str, ...] = ()
    schema: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> CommitManifest | None:
        """Return a folder's manifest; None where there is none.

        Raises:
            TableError: the file is no manifest.
        """
        path = folder / _MANIFEST
        try:
            found = json.loads(path.read_bytes())
            marker = found["marker"]
            return cls(
                commit=found["commit"],
                marker=None if marker is None else CommitMetadata(**marker),
                parts=tuple(found["parts"]),
                schema=dict(found["schema"]),
                sources=dict(found.get("sources", {})),
            )
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise TableError(f"{path} is no manifest of target-spark: {error!r}") from error

    def write(self, folder: Path) -> None:
        """Put the manifest in the place of the old one, at once and to the disk."""
        fresh = folder / f"{_MANIFEST}.{uuid.uuid4().hex}{_UNFINISHED}"
        document: dict[str, Any] = {
            "format": 1,
            **asdict(self),
            "marker": None if self.marker is None else self.marker.as_dict(),
            "schema": dict(self.schema),
            "sources": dict(self.sources),
        }
        with fresh.open("x", encoding="utf-8") as file:  # which follows no link
            json.dump(document, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(folder / _MANIFEST)
        sync(folder)


class ParquetWriter:
    """Writes folders of Parquet; remembers of each the manifest that it found or wrote."""

    keeps_batch = False

    def __init__(self) -> None:
        self._opened: dict[str, CommitManifest | None] = {}
        self._sources: dict[str, Mapping[str, str]] = {}
        self._acknowledged: dict[str, CommitMetadata] = {}
        self._effects: dict[str, CommitStats] = {}

    def can_widen(self, _old: str, _new: str, /) -> bool:
        """Tell whether a column's type can be changed in place: it never can."""
        return False

    def table_types(self, _spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
        """Return each column's type as DDL, in order; None where there is no table.

        Raises:
            TableError: there are files that the target did not write, or the table was removed.
        """
        folder = _folder(table)
        manifest = self._opened[table.key] = self._read(table)
        if manifest is None:
            _refuse_other_files(folder)
            return None
        return manifest.schema

    def create(
        self,
        spark: SparkSession,
        /,
        table: Table,
        layout: TableSchema,
        design: TableLayout,  # noqa: ARG002
        *,
        has_rows: bool = False,
    ) -> None:
        """Make an empty table: one part without rows, for readers to see its columns."""
        self.annotate(spark, table, layout)
        if has_rows:
            return
        columns = (
            F.lit(None).cast(column.type.ddl).alias(column.name) for column in layout.columns
        )
        with self._committing(table):
            if CommitManifest.read(_folder(table)) is None:  # another run may have been faster
                self._write(spark.range(0).select(*columns), table, self._open(table), 0)

    def arranged_otherwise(
        self, _spark: SparkSession, _table: Table, _layout: TableSchema, _design: TableLayout, /
    ) -> str | None:
        """Say nothing: every folder is laid out in the same way."""
        return None

    def alter(self, _spark: SparkSession, /, table: Table, changes: Sequence[SchemaChange]) -> None:
        """Accept new columns and fields, which come with the next parts.

        Raises:
            UnsupportedError: a type was to be changed.
        """
        for change in changes:
            if change.kind == "widen":
                raise UnsupportedError(
                    f"Parquet cannot change the type of {'.'.join(change.path)} of table"
                    f" {table.name} to {change.ddl}."
                )

    def sources(self, _spark: SparkSession, /, table: Table) -> Mapping[str, str]:
        """Return what the table remembers of `Layout.sources`."""
        manifest = CommitManifest.read(_folder(table)) or CommitManifest()
        return {**manifest.sources, **self._sources.get(table.key, {})}

    def annotate(self, _spark: SparkSession, /, table: Table, layout: TableSchema) -> None:
        """Let the next manifest remember the layout's sources; there are no comments."""
        self._sources[table.key] = {**self._sources.get(table.key, {}), **layout.sources}

    def allow_nulls(self, _spark: SparkSession, /, table: Table, keep: Collection[str]) -> None:
        """Do nothing: every column takes nulls."""

    def append(
        self,
        _spark: SparkSession,
        /,
        table: Table,
        df: DataFrame,
        commit: CommitMetadata,
        rows: int | None = None,
    ) -> CommitStats:
        """Add the rows of a batch."""
        with self._committing(table):
            manifest = self._open(table, commit)
            marker = self._next(manifest, commit, table)
            if not commit.same_batch(manifest.marker):
                self._write(df, table, replace(manifest, marker=marker), rows)
            self._acknowledged[table.key] = marker
        return self._effects.get(table.key, CommitStats())

    def upsert(
        self,
        _spark: SparkSession,
        table: Table,
        _df: DataFrame,
        _keys: MergeKeys,
        _commit: CommitMetadata,
        /,
    ) -> CommitStats:
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            f"Parquet cannot replace rows by key (table {table.name}). Set format to delta,"
            " or write_mode to append: then a row that is sent again stands there twice."
        )

    def history(
        self,
        _spark: SparkSession,
        table: Table,
        _df: DataFrame,
        _keys: MergeKeys,
        _commit: CommitMetadata,
        /,
    ) -> CommitStats:
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            f"Parquet cannot end a version of a row (table {table.name}). Set format to delta,"
            " or write_mode to append: then every version stands there, without its end."
        )

    def replace(
        self,
        _spark: SparkSession,
        /,
        table: Table,
        df: DataFrame,
        commit: CommitMetadata,
        rows: int | None = None,
    ) -> CommitStats:
        """Put these rows in the place of all others; readers may see both for a moment."""
        with self._committing(table):
            manifest = self._open(table, commit)
            marker = self._next(manifest, commit, table)
            if not commit.same_batch(manifest.marker):
                self._write(df, table, CommitManifest(manifest.commit, marker), rows)
                self._open(table)  # which removes the other parts
            self._acknowledged[table.key] = marker
        return self._effects.get(table.key, CommitStats())

    def retire(
        self,
        _spark: SparkSession,
        /,
        table: Table,
        _retirement: VersionDelete,
        _commit: CommitMetadata,
    ) -> CommitStats:
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            f"Parquet cannot remove the rows of other versions (table {table.name}). Set format"
            " to delta, or write_mode to overwrite."
        )

    def care(self, _spark: SparkSession, /, table: Table, _care: MaintenanceOptions) -> None:
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            f"Parquet folders are not tidied (table {table.name}). Set compact to false and"
            " take retain_days away, or set format to delta."
        )

    def commit_empty(self, _spark: SparkSession, /, table: Table, commit: CommitMetadata) -> None:
        """Commit a marker without rows."""
        with self._committing(table):
            manifest = self._open(table, commit)
            marker = self._next(manifest, commit, table)
            self._seal(table, replace(manifest, marker=marker))
            self._acknowledged[table.key] = marker

    def last_marker(self, _spark: SparkSession, /, table: Table) -> CommitMetadata | None:
        """Return the newest marker in the table; None where no table or no marker is."""
        manifest = CommitManifest.read(_folder(table))
        return None if manifest is None else manifest.marker

    def is_empty(self, _spark: SparkSession, /, table: Table) -> bool:
        """Tell whether the table has no part that counts."""
        manifest = CommitManifest.read(_folder(table))
        return manifest is None or not manifest.parts

    def rows(self, spark: SparkSession, /, table: Table) -> DataFrame:
        """Return the rows that the table has now: those of the parts that count."""
        folder, manifest = _folder(table), CommitManifest.read(_folder(table)) or CommitManifest()
        parts = [to_spark_uri(str(folder / name)) for name in manifest.parts]
        schema = ", ".join(f"{quote(name)} {ddl}" for name, ddl in manifest.schema.items())
        if not parts:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*parts)

    def drop(self, spark: SparkSession, /, table: Table) -> None:
        """Remove the folder."""
        remove_folder(spark, str(_folder(table)))
        self._opened.pop(table.key, None)

    def _next(
        self, manifest: CommitManifest, commit: CommitMetadata, table: Table
    ) -> CommitMetadata:
        acknowledged = commit.same_batch(self._acknowledged.get(table.key))
        return next_marker(manifest.marker, commit, table, acknowledged=acknowledged)

    def _read(self, table: Table) -> CommitManifest | None:
        """Return the table's manifest; None where there is none.

        Raises:
            TableError: there was one, and it is gone.
        """
        found = CommitManifest.read(_folder(table))
        if found is None and self._opened.get(table.key) is not None:
            raise table_removed_error(table)
        return found

    def _open(self, table: Table, commit: CommitMetadata | None = None) -> CommitManifest:
        """Return the table's manifest, and clear what commits left that did not come to an end.

        Raises:
            ConflictError: it is neither the one that was last seen nor that of ``commit``, whose
                answer may have been lost: another run has written one since.
            TableError: it is gone.
        """
        folder = _folder(table)
        _remove_unfinished(folder)
        found = self._read(table)
        is_made = found is not None and commit is not None and commit.same_batch(found.marker)
        is_known = found == self._opened.get(table.key, found)
        self._opened[table.key] = found
        if not (is_made or is_known):
            raise ConflictError(f"Another run has written to table {table.name} meanwhile.")
        manifest = found or CommitManifest()
        _remove_strays(folder, manifest)
        return manifest

    def _write(
        self, df: DataFrame, table: Table, base: CommitManifest, expected: int | None
    ) -> None:
        """Write the rows as parts, and a manifest that has them beside those of `base`.

        What it does to the table is noted first: the manifest may be there after an error.

        Raises:
            CountError: the parts do not have as many rows as they must; no manifest lists them.
        """
        folder = _folder(table)
        staging = folder / _STAGING / uuid.uuid4().hex  # a dead run's executors may yet write
        before = self._opened[table.key] or CommitManifest()
        df = _with_all_columns(df, before.schema)
        rows, count = counted(df, expected)
        rows.write.parquet(f"file://{staging}")
        written = sum(map(row_count, staging.glob("part-*.parquet")))
        check_count(table, count(written), written)
        commit = base.commit + 1
        names = _move_in(staging, folder, commit)
        types = {column.name: to_ddl(column.dataType) for column in df.schema.fields}
        schema = {**base.schema, **types}
        nbytes = sum((folder / name).stat().st_size for name in names)
        self._effects[table.key] = CommitStats(inserted=written, files=len(names), nbytes=nbytes)
        self._seal(table, CommitManifest(commit, base.marker, (*base.parts, *names), schema))

    def _seal(self, table: Table, manifest: CommitManifest) -> None:
        before = self._opened[table.key] or CommitManifest()
        sources = {**before.sources, **self._sources.get(table.key, {})}
        manifest = replace(manifest, sources=sources)
        if self._read(table) != self._opened[table.key]:  # nobody else has the lock
            raise replaced_meanwhile(table)
        manifest.write(_folder(table))
        self._opened[table.key] = manifest

    @contextmanager
    def _committing(self, table: Table) -> Iterator[None]:
        """Hold the table's lock.

        Raises:
            TableError: the table was removed meanwhile.
        """
        with _locked(_folder(table)):
            try:
                yield
            except FileNotFoundError:
                self._read(table)  # which says that the table is gone, if that is why
                raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a table while parts are written and listed: runs take turns."""
    lock = folder / "_target_spark" / "commit.lease"
    file = open_lease(lock, os.O_RDWR | os.O_CREAT, in_warehouse=True)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _with_all_columns(df: DataFrame, schema: Mapping[str, str]) -> DataFrame:
    """Return rows with the columns of the parts before them, for readers of one part."""
    fresh = [name for name in df.columns if name not in schema]
    missing = {
        name: F.lit(None).cast(ddl) for name, ddl in schema.items() if name not in df.columns
    }
    if not missing:
        return df
    return df.withColumns(missing).select(*map(quote, (*schema, *fresh)))


def _folder(table: Table) -> Path:
    folder = to_local_folder(table.path)
    if folder is None:
        raise UnsupportedError(
            f"Parquet tables can only be written to folders of this machine, not to"
            f" {table.path}. Set format to delta for other places."
        )
    return folder


def _refuse_other_files(folder: Path) -> None:
    if not folder.is_dir():
        return
    files = (file.name for file in folder.iterdir() if file.name[0] not in "._")
    strange = next((name for name in files if not _OURS.fullmatch(name)), None)
    if strange is not None:
        raise TableError(
            f"{folder} has files that target-spark did not write ({strange}). Set path to"
            " another folder, or move them away."
        )


def _remove_unfinished(folder: Path) -> None:
    """Remove manifests that wait for their name."""
    for manifest in folder.glob(f"{_MANIFEST}*{_UNFINISHED}"):
        manifest.unlink()


def _remove_strays(folder: Path, manifest: CommitManifest) -> None:
    """Remove what a commit left that did not come to its end."""
    shutil.rmtree(folder / _STAGING, ignore_errors=True)
    if not folder.is_dir():
        return
    listed = set(manifest.parts)
    for file in folder.iterdir():
        if _OURS.fullmatch(file.name) and file.name not in listed:
            file.unlink()


def _move_in(staging: Path, folder: Path, commit: int) -> list[str]:
    names: list[str] = []
    for i, part in enumerate(sorted(staging.glob("part-*.parquet"))):
        sync(part)
        names.append(f"part-{commit:08}-{i:05}.parquet")
        part.replace(folder / names[-1])
    sync(folder)
    shutil.rmtree(folder / _STAGING, ignore_errors=True)
    return names
