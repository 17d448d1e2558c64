"""Parquet folders for simulations: the project's own code with steps and faults in between."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from target_spark.tables import parquet_manifest
from target_spark.tables.parquet_manifest import CommitManifest
from target_spark.writers import parquet
from tests.simulation.scheduler import Scheduler
from tests.simulation.spark import (
    Disk,
    Row,
    Rows,
    SimulatedFrame,
    names_in,
    read_rows,
)

__all__ = ["ParquetTables"]

_FOREIGN_PREFIX = "foreign-"


class ParquetTables:
    """The Parquet tables in a folder."""

    def __init__(self, root: Path, scheduler: Scheduler) -> None:
        self._root = root
        self._scheduler = scheduler
        self._disk = Disk(scheduler)
        self._locked: list[str] = []

    def replacements(self) -> dict[Any, dict[str, Any]]:
        lock = parquet._locked

        @contextmanager
        def locked(folder: Path) -> Iterator[None]:
            with lock(folder):
                self._locked.append(folder.name)
                try:
                    yield
                finally:
                    self._locked.remove(folder.name)

        return {
            parquet: {
                "_locked": locked,
                "F": SimpleNamespace(lit=_NoColumn),
                "counted": lambda df, _rows: (df, lambda _counts: len(df.data)),
                "row_count": lambda path: len(read_rows(path)),
                "flush_to_disk": self._sync,
            },
            parquet_manifest: {
                "json": SimpleNamespace(loads=json.loads, dump=self._dump),
                "flush_to_disk": self._sync,
            },
        }

    def _sync(self, path: Path) -> None:
        self._scheduler.step(f"sync {path.name[:5]}")

    # Called by the schedule

    def exists(self, name: str) -> bool:
        return (self._root / name / "_manifest.json").is_file()

    def rows(self, name: str) -> Rows:
        folder = self._root / name
        manifest = CommitManifest.read(folder)
        parts = () if manifest is None else manifest.parts
        foreign_files = () if not folder.is_dir() else sorted(folder.glob(f"{_FOREIGN_PREFIX}*"))
        files = [*(folder / part for part in parts), *foreign_files]
        return [row for file in files for row in read_rows(file)]

    def append(self, name: str, row: Row) -> bool:
        path = self._root / name / f"{_FOREIGN_PREFIX}{uuid.uuid4().hex}.parquet"
        path.write_text(json.dumps(row) + "\n")
        return True

    def may_act(self, name: str, action: str) -> bool:
        """Return True if no run is committing. Other tools add files without the lock."""
        return self.exists(name) and (action == "removed" or name not in self._locked)

    def remove(self, name: str) -> None:
        shutil.rmtree(self._root / name)

    def replace(self, name: str, row: Row) -> None:
        self.remove(name)
        (self._root / name).mkdir()
        self.append(name, row)

    def is_as_replaced(self, name: str) -> bool:
        names = [
            file_name for file_name in names_in(self._root / name) if file_name != "_target_spark"
        ]
        return len(names) == 1

    def list_leftovers(self, name: str, _jobs: Sequence[str]) -> list[str]:
        folder = self._root / name
        manifest = CommitManifest.read(folder) or CommitManifest()
        known = {"_manifest.json", "_target_spark", *manifest.parts}
        names = (
            file_name for file_name in names_in(folder) if not file_name.startswith(_FOREIGN_PREFIX)
        )
        return sorted(set(names) - known)

    def check(self, _ref: str) -> None:
        """Do nothing: the Parquet writer does not ask Spark for tables."""

    def execute(self, statement: str) -> None:
        raise AssertionError(statement)

    def merge(self, ref: str, _batch: object) -> None:
        raise AssertionError(ref)

    def write(self, _frame: SimulatedFrame, ref: str) -> None:
        raise AssertionError(ref)

    def _dump(self, document: object, file: Any, **_options: object) -> None:
        self._scheduler.step("before the manifest is written")
        text = json.dumps(document)
        file.write(text[: len(text) // 2])
        self._scheduler.step("while the manifest is written")
        self._disk.try_to_write("the manifest")
        file.write(text[len(text) // 2 :])


class _NoColumn:
    """A column of nulls."""

    def __init__(self, _value: object) -> None: ...

    def cast(self, _ddl: str) -> _NoColumn:
        return self

    def alias(self, _name: str) -> _NoColumn:
        return self
