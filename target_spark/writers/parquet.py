"""Plain Parquet: a folder of parts, and a manifest that says which of them count.

Rules of the room: Spark writes a batch under a staging name; its files are moved in as
``part-<commit>-<i>.parquet`` and count from the moment the manifest that lists them is
renamed into place. On the first write of a run, parts of ours that no manifest lists
are removed: they are of a commit that did not come to its end. Readers list the folder,
so they may see a commit's parts a moment early; what is promised is that nothing is
there twice after a resume.

There is no upsert and no change of a type: new columns come with new parts, and readers
merge the schemas (``mergeSchema``). Folders must be on this machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import Change, Layout
from target_spark.errors import TableError, UnsupportedError
from target_spark.ledger import Marker
from target_spark.places import local_folder
from target_spark.tables import Design, Table
from target_spark.writers.base import Keys, after, ddl_of

__all__ = ["Manifest", "ParquetWriter"]

_MANIFEST = "_manifest.json"
_STAGING = "_staging"
_OURS = re.compile(r"part-\d{8,}-\d{5}\.parquet")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a folder holds: the number of its last commit, its marker, parts and columns."""

    commit: int = 0
    marker: Marker | None = None
    parts: tuple[str, ...] = ()
    schema: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
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
                marker=None if marker is None else Marker(**marker),
                parts=tuple(found["parts"]),
                schema=dict(found["schema"]),
            )
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise TableError(f"{path} is no manifest of target-spark: {error!r}") from error

    def write(self, folder: Path) -> None:
        """Put the manifest in the place of the old one, at once and to the disk."""
        fresh = folder / f"{_MANIFEST}.new"
        document: dict[str, Any] = {"format": 1, **asdict(self), "schema": dict(self.schema)}
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(folder / _MANIFEST)
        _to_disk(folder)


class ParquetWriter:
    """Writes folders of Parquet; remembers of each the manifest that it wrote."""

    can_upsert = False

    def __init__(self) -> None:
        self._opened: dict[str, Manifest] = {}
        self._acknowledged: set[str] = set()

    def can_widen(self, _old: str, _new: str, /) -> bool:
        """Tell whether a column's type can be changed in place: it never can."""
        return False

    def table_types(self, _spark: SparkSession, /, table: Table) -> Mapping[str, str] | None:
        """Return each column's type as DDL, in order; None where there is no table.

        Raises:
            TableError: there are files that the target did not write.
        """
        folder = _folder(table)
        manifest = Manifest.read(folder)
        if manifest is None:
            _refuse_other_files(folder)
            return None
        return manifest.schema

    def create(
        self,
        spark: SparkSession,
        /,
        table: Table,
        layout: Layout,
        design: Design,  # noqa: ARG002
        *,
        rows_follow: bool = False,
    ) -> None:
        """Make an empty table: one part without rows, for readers to see its columns."""
        if rows_follow:
            return
        columns = (
            F.lit(None).cast(column.type.ddl).alias(column.name) for column in layout.columns
        )
        self._write(spark.range(0).select(*columns), table, Manifest())

    def alter(self, _spark: SparkSession, /, table: Table, changes: Sequence[Change]) -> None:
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

    def append(self, _spark: SparkSession, /, table: Table, df: DataFrame, commit: Marker) -> None:
        """Add the rows of a batch."""
        manifest = self._open(table)
        marker = self._next(manifest, commit, table)
        if not commit.same_batch(manifest.marker):
            self._write(df, table, replace(manifest, marker=marker))
        self._acknowledged.add(table.key)

    def upsert(
        self, _spark: SparkSession, table: Table, _df: DataFrame, _keys: Keys, _commit: Marker, /
    ) -> None:
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            f"Parquet cannot replace rows by key (table {table.name}). Set format to delta,"
            " or write_mode to append: then a row that is sent again stands there twice."
        )

    def replace(self, _spark: SparkSession, /, table: Table, df: DataFrame, commit: Marker) -> None:
        """Put these rows in the place of all others; readers may see both for a moment."""
        manifest = self._open(table)
        marker = self._next(manifest, commit, table)
        if not commit.same_batch(manifest.marker):
            self._write(df, table, Manifest(manifest.commit, marker))
            _remove_strays(_folder(table), self._opened[table.key])
        self._acknowledged.add(table.key)

    def commit_empty(self, _spark: SparkSession, /, table: Table, commit: Marker) -> None:
        """Commit a marker without rows."""
        manifest = self._open(table)
        marker = self._next(manifest, commit, table)
        self._seal(table, replace(manifest, marker=marker))
        self._acknowledged.add(table.key)

    def last_marker(self, _spark: SparkSession, /, table: Table) -> Marker | None:
        """Return the newest marker in the table; None where no table or no marker is."""
        manifest = Manifest.read(_folder(table))
        return None if manifest is None else manifest.marker

    def _next(self, manifest: Manifest, commit: Marker, table: Table) -> Marker:
        acknowledged = table.key in self._acknowledged
        return after(manifest.marker, commit, table, acknowledged=acknowledged)

    def _open(self, table: Table) -> Manifest:
        """Return the table's manifest; the first time, clear what a dead run left."""
        if table.key not in self._opened:
            folder = _folder(table)
            manifest = Manifest.read(folder) or Manifest()
            _remove_strays(folder, manifest)
            self._opened[table.key] = manifest
        return self._opened[table.key]

    def _write(self, df: DataFrame, table: Table, base: Manifest) -> None:
        """Write the rows as parts, and a manifest that has them beside those of `base`."""
        folder = _folder(table)
        self._open(table)
        staging = folder / _STAGING
        _remove_strays(folder, self._opened[table.key])
        df.write.parquet(f"file://{staging}")
        commit = base.commit + 1
        names = _move_in(staging, folder, commit)
        types = {column.name: ddl_of(column.dataType) for column in df.schema.fields}
        schema = {**base.schema, **types}
        self._seal(table, Manifest(commit, base.marker, (*base.parts, *names), schema))

    def _seal(self, table: Table, manifest: Manifest) -> None:
        manifest.write(_folder(table))
        self._opened[table.key] = manifest


def _folder(table: Table) -> Path:
    folder = local_folder(table.path)
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


def _remove_strays(folder: Path, manifest: Manifest) -> None:
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
        _to_disk(part)
        names.append(f"part-{commit:08}-{i:05}.parquet")
        part.replace(folder / names[-1])
    _to_disk(folder)
    shutil.rmtree(staging)
    return names


def _to_disk(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
