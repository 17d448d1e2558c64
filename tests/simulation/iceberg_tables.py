"""A model of Iceberg tables in a Hadoop catalog: real folders and metadata files, no JVM.

The first writer that creates a version's metadata file makes the version (Iceberg's table
specification, "File System Tables"). A write reads the table when it begins. At the commit, Iceberg
reads on from its known version, recognizes another table by its uuid, validates as the write
requests, adds the snapshot, and repeats that if another commit was faster.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.errors import AnalysisException

from target_spark.writers.iceberg import snapshot_reader, snapshot_rollback
from target_spark.writers.iceberg import writer as iceberg
from tests.simulation.scheduler import Scheduler
from tests.simulation.spark import (
    Disk,
    Row,
    Rows,
    SimulatedFrame,
    SimulatedMerge,
    read_rows,
)

__all__ = ["IcebergTables"]

_TRIES = 5
_PROPERTIES = {"target_spark.source.kept": "true"}
_MARKER = "target-spark"
_SETTING = f"spark.sql.iceberg.snapshot-property.{_MARKER}"
_COUNTS = "spark.merge-into.num-target-rows-"


class CommitFailedException(Exception):  # noqa: N818  (Iceberg's name)
    """Other commits were faster at each try."""

    __module__ = "org.apache.iceberg.exceptions"


class ValidationException(Exception):  # noqa: N818  (Iceberg's name)
    """The table was changed in a way that the commit does not allow."""

    __module__ = "org.apache.iceberg.exceptions"


class IllegalStateException(Exception):  # noqa: N818  (Java's name)
    """The table has another uuid."""

    __module__ = "java.lang"


@dataclass(frozen=True)
class _File:
    path: Path
    rows: int
    size: int


@dataclass(frozen=True)
class _Snapshot:
    id: int
    parent: int | None
    added: tuple[_File, ...]
    files: tuple[_File, ...]
    removes: bool
    summary: Mapping[str, str]


@dataclass(frozen=True)
class _Metadata:
    """One version of a table; ``line`` are its snapshots, oldest first."""

    uuid: str
    version: int
    line: tuple[_Snapshot, ...] = ()

    @property
    def files(self) -> tuple[_File, ...]:
        return self.line[-1].files if self.line else ()

    def to_json(self) -> str:
        snapshots = [
            {
                "snapshot-id": snapshot.id,
                "parent-snapshot-id": snapshot.parent,
                "summary": snapshot.summary,
            }
            for snapshot in self.line
        ]
        current = self.line[-1].id if self.line else None
        document = {"table-uuid": self.uuid, "current-snapshot-id": current}
        return json.dumps({**document, "snapshots": snapshots})


@dataclass(frozen=True)
class _Change:
    """The change of a write: the files to add, and if they replace all others.

    With ``validates``, files added after the snapshot ``since`` are a conflict; without that
    snapshot, all files.
    """

    added: tuple[_File, ...]
    summary: Mapping[str, str]
    replaces: bool = False
    validates: bool = False
    since: int | None = None

    def on(self, base: _Metadata, id_: int) -> _Metadata:
        """Return the table with this change.

        Raises:
            ValidationException: there is a conflict.
        """
        later = list(
            itertools.takewhile(lambda snapshot: snapshot.id != self.since, reversed(base.line))
        )
        if self.validates and any(snapshot.added or snapshot.removes for snapshot in later):
            raise ValidationException("Found conflicting files that can contain records")
        files = self.added if self.replaces else (*base.files, *self.added)
        removed = base.files if self.replaces else ()
        summary = {
            "operation": "overwrite" if self.replaces else "append",
            "added-data-files": str(len(self.added)),
            "added-records": str(sum(file.rows for file in self.added)),
            "deleted-data-files": str(len(removed)),
            "deleted-records": str(sum(file.rows for file in removed)),
            "total-records": str(sum(file.rows for file in files)),
            **self.summary,
        }
        parent = base.line[-1].id if base.line else None
        new_snapshot = _Snapshot(id_, parent, self.added, files, bool(removed), summary)
        return replace(base, version=base.version + 1, line=(*base.line, new_snapshot))


@dataclass
class _Write:
    """A write of a frame, as `DataFrameWriterV2`."""

    tables: IcebergTables
    frame: SimulatedFrame
    name: str
    write_options: dict[str, str] = field(default_factory=dict)

    def options(self, **kwargs: str) -> _Write:
        self.write_options.update(kwargs)
        return self

    def option(self, key: str, value: str) -> _Write:
        self.write_options[key] = value
        return self

    def append(self) -> None:
        self._write(validates=False)

    def overwrite(self, condition: object) -> None:
        if condition is not False:
            raise AssertionError(condition)
        self._write(validates=self.write_options.get("isolation-level") == "serializable")

    def _write(self, *, validates: bool) -> None:
        since = self.write_options.get("validate-from-snapshot-id")
        with self.tables.writing(self.name) as base:
            added = self.tables.write_files(self.name, self.frame.data)
            marker = self.write_options.get(f"snapshot-property.{_MARKER}")
            summary = {} if marker is None else {_MARKER: marker}
            since_id = None if since is None else int(since)
            change = _Change(added, summary, validates=validates, since=since_id)
            self.tables.commit(self.name, base, change)


class IcebergTables:
    """The Iceberg tables in a folder, with the operations of Spark."""

    def __init__(self, root: Path, scheduler: Scheduler) -> None:
        self._root = root
        self._scheduler = scheduler
        self._disk = Disk(scheduler)
        self._versions: dict[str, list[_Metadata]] = {}
        self._writes: list[tuple[str, int]] = []
        self._ids = itertools.count(1)

    def replacements(self) -> dict[Any, dict[str, Any]]:
        return {
            iceberg: {
                "F": SimpleNamespace(lit=lambda value: value),
                "counted": lambda df, _rows: (df, lambda _found: len(df.data)),
                "latest_by_key": lambda df, _keys: df.newest_by_key(),
                "as_initial_rows": lambda df, _keys: df,
                "build_upsert": lambda ref, *_: SimulatedMerge(ref),
            },
            snapshot_reader: {"load": self._load, "flush_table": lambda *_: None},
            snapshot_rollback: {"load": self._load},
        }

    def _load(self, _spark: object, location: Any) -> _Loaded:
        metadata = self._versions[location.name][-1]
        return _Loaded(metadata, self._metadata_file(location.name, metadata))

    # Called by the schedule

    def exists(self, name: str) -> bool:
        return bool(self._versions.get(name))

    def rows(self, name: str) -> Rows:
        versions = self._versions.get(name)
        files = versions[-1].files if versions else ()
        return [row for file in files for row in read_rows(file.path)]

    def append(self, name: str, row: Row) -> bool:
        path = self._root / name / "data" / f"theirs-{uuid.uuid4().hex}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(row) + "\n")
        change = _Change((_File(path, 1, path.stat().st_size),), {})
        return self._publish(name, change.on(self._versions[name][-1], next(self._ids)))

    def may_act(self, name: str, _action: str) -> bool:
        """Return True if no write could mistake a table of two versions for the one it has read.

        Iceberg compares uuids only if it reads another version than its known one.
        """
        at_work = any(table == name and version <= 2 for table, version in self._writes)
        return self.exists(name) and not at_work

    def remove(self, name: str) -> None:
        shutil.rmtree(self._root / name)
        del self._versions[name]

    def replace(self, name: str, row: Row) -> None:
        self.remove(name)
        (self._root / name / "metadata").mkdir(parents=True)
        self._publish(name, _Metadata("another", 1))
        self.append(name, row)

    def is_as_replaced(self, name: str) -> bool:
        return len(self._versions.get(name, ())) == 2

    def list_leftovers(self, _name: str, _jobs: Sequence[str]) -> list[str]:
        return []

    # Operations of Spark

    def check(self, ref: str) -> None:
        if not self.exists(_name_in(ref)):
            raise AnalysisException(f"[TABLE_OR_VIEW_NOT_FOUND] {ref}")

    def write(self, frame: SimulatedFrame, ref: str) -> _Write:
        return _Write(self, frame, _name_in(ref))

    def execute(self, statement: str) -> Any:
        name = _name_in(statement)
        if statement.startswith("CREATE TABLE IF NOT EXISTS "):
            return self._create(name)
        if statement.startswith("SHOW TBLPROPERTIES "):
            rows = [SimpleNamespace(key=key, value=value) for key, value in _PROPERTIES.items()]
            return SimpleNamespace(collect=lambda: rows)
        raise AssertionError(statement)

    @contextmanager
    def writing(self, name: str) -> Iterator[_Metadata]:
        """Yield the table as a write reads it, right after the writer has looked at it."""
        self.check(f"`{name}`")
        base = self._versions[name][-1]
        self._writes.append((name, base.version))
        try:
            yield base
        finally:
            self._writes.remove((name, base.version))

    def write_files(self, name: str, rows: Rows) -> tuple[_File, ...]:
        """Write rows to a file that no snapshot lists yet; no file without rows."""
        self._scheduler.step("while files are written")
        if not rows:
            return ()
        path = self._root / name / "data" / f"{uuid.uuid4().hex}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._disk.put_rows(path, rows)
        return (_File(path, len(rows), path.stat().st_size),)

    def commit(self, name: str, base: _Metadata, change: _Change) -> None:
        """Commit a change; the files of a rejected change are removed.

        Raises:
            CommitFailedException: All attempts lost against other commits.
            ValidationException: The change conflicts with another one, or the table was removed.
            IllegalStateException: The table was replaced by another one.
            TimeoutError: The result of the commit is unknown.
        """
        try:
            self._commit(name, base, change)
        except (CommitFailedException, ValidationException, IllegalStateException):
            for file in change.added:
                file.path.unlink(missing_ok=True)
            raise

    def _commit(self, name: str, base: _Metadata, change: _Change) -> None:
        for _ in range(_TRIES):
            new_metadata = change.on(self._refreshed(name, base), next(self._ids))
            self._disk.try_to_write("metadata")
            publish = partial(self._publish, name, new_metadata)
            if self._scheduler.call("commit a snapshot", publish):
                return
        raise CommitFailedException("Version already exists")

    def _refreshed(self, name: str, base: _Metadata) -> _Metadata:
        self._scheduler.step("before the table is refreshed")
        versions = self._versions.get(name, [])
        if len(versions) < base.version:
            raise ValidationException(f"Metadata file for version {base.version} is missing")
        if len(versions) == base.version:
            return base
        if versions[-1].uuid != base.uuid:
            raise IllegalStateException("Table UUID does not match")
        return versions[-1]

    def _create(self, name: str) -> None:
        metadata = _Metadata(uuid.uuid4().hex, 1)

        def effect() -> None:
            (self._root / name / "metadata").mkdir(parents=True, exist_ok=True)
            self._publish(name, metadata)

        (self._root / name / "metadata").mkdir(parents=True, exist_ok=True)
        self._disk.try_to_write("metadata")
        self._scheduler.call("create the table", effect)

    def merge(self, ref: str, batch: SimulatedFrame) -> None:
        """Rewrite the rows of all files with those of the batch (copy-on-write)."""
        name = _name_in(ref)
        with self.writing(name) as base:
            old = [row for file in base.files for row in read_rows(file.path)]
            existing_ids = {row["id"] for row in old}
            fresh = {row["id"]: row for row in batch.data}
            rows = [fresh.pop(row["id"], row) for row in old] + list(fresh.values())
            added = self.write_files(name, rows)
            updated = sum(row["id"] in existing_ids for row in batch.data)
            summary = {
                _MARKER: batch.spark.settings[_SETTING],
                f"{_COUNTS}inserted": str(len(batch.data) - updated),
                f"{_COUNTS}updated": str(updated),
                f"{_COUNTS}deleted": "0",
            }
            since = base.line[-1].id if base.line else None
            change = _Change(added, summary, replaces=True, validates=True, since=since)
            self.commit(name, base, change)

    # The metadata

    def _publish(self, name: str, metadata: _Metadata) -> bool:
        """Create a version atomically; return False if it exists."""
        versions = self._versions.get(name, [])
        if metadata.version != len(versions) + 1:
            return False
        self._metadata_file(name, metadata).write_text(metadata.to_json())
        self._versions[name] = [*versions, metadata]
        return True

    def _metadata_file(self, name: str, metadata: _Metadata) -> Path:
        return self._root / name / "metadata" / f"v{metadata.version}.metadata.json"


@dataclass(frozen=True)
class _Loaded:
    """The methods of Iceberg's table object that the writer uses."""

    metadata: _Metadata
    file: Path

    def io(self) -> SimpleNamespace:
        def exists(location: str) -> bool:
            return Path(location.removeprefix("file://")).exists()

        return SimpleNamespace(
            newInputFile=lambda location: SimpleNamespace(exists=partial(exists, location))
        )

    def snapshot(self, id_: int) -> SimpleNamespace:
        """Return a snapshot; the metadata file stands in for its manifest list."""
        (matching,) = (
            snapshot_of_line
            for snapshot_of_line in self.metadata.line
            if snapshot_of_line.id == id_
        )
        files = [
            SimpleNamespace(
                location=lambda file=file: f"file://{file.path}",
                fileSizeInBytes=lambda file=file: file.size,
                recordCount=lambda file=file: file.rows,
                content=lambda: SimpleNamespace(id=lambda: 0),
            )
            for file in matching.added
        ]
        return SimpleNamespace(
            manifestListLocation=lambda: f"file://{self.file}",
            allManifests=lambda _io: [],
            addedDataFiles=lambda _io: files,
            addedDeleteFiles=lambda _io: [],
        )


def _name_in(statement: str) -> str:
    """Return the last part of the table's identifier in a statement."""
    match = re.search(r"((?:`[^`]+`\.?)+)", statement)
    if match is None:
        raise AssertionError(statement)
    return re.findall(r"`([^`]+)`", match[1])[-1]
