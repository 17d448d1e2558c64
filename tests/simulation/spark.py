"""A model of Spark for simulations: rows, files of rows, and a session without a JVM.

Files of rows contain JSON lines instead of Parquet. The model of a table's format defines the
effects of statements and writes.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from pyspark.sql import types as T  # noqa: N812

from tests.simulation.scheduler import Scheduler

__all__ = [
    "FIELDS",
    "Disk",
    "Row",
    "Rows",
    "SimulatedFrame",
    "SimulatedMerge",
    "SimulatedSpark",
    "Tables",
    "names_in",
    "no_space",
    "read_rows",
]

Row = dict[str, Any]
Rows = Sequence[Row]

FIELDS = [T.StructField("id", T.LongType()), T.StructField("v", T.LongType())]


class Tables(Protocol):
    """The tables of one format below one folder, identified by name."""

    def rows(self, name: str) -> Rows:
        """Return the rows that a reader finds; raise an error if a file of the table is missing."""
        ...

    def exists(self, name: str) -> bool: ...

    def append(self, name: str, row: Row) -> bool:
        """Append a row as another tool does; return False if that failed."""
        ...

    def may_act(self, name: str, action: str, /) -> bool:
        """Return True if the format detects a removal or replacement of the table now."""
        ...

    def replace(self, name: str, row: Row) -> None:
        """Replace the table by another tool's table with one row."""
        ...

    def remove(self, name: str) -> None: ...

    def is_as_replaced(self, name: str) -> bool:
        """Return True if the other tool's table was not changed since."""
        ...

    def list_leftovers(self, name: str, jobs: Sequence[str]) -> list[str]:
        """Return names in a table's folder that the runs of these jobs should have removed."""
        ...

    def replacements(self) -> dict[Any, dict[str, Any]]:
        """Return, by module of the project, the replacements for Spark and its libraries."""
        ...

    def execute(self, statement: str, /) -> Any:
        """Execute a statement."""
        ...

    def merge(self, ref: str, batch: SimulatedFrame, /) -> None:
        """Merge a batch into a table by its key."""
        ...

    def write(self, frame: SimulatedFrame, ref: str, /) -> Any:
        """Return a writer of rows to a table."""
        ...

    def check(self, statement: str, /) -> None:
        """Raise Spark's error if the table of a statement or a reference does not exist."""
        ...


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@lru_cache(4096)
def _parse(text: str) -> tuple[Row, ...]:
    return tuple(json.loads(line) for line in text.splitlines())


def names_in(folder: Path) -> list[str]:
    return os.listdir(folder)  # noqa: PTH208  (called often, only for names)


def read_rows(path: Path) -> tuple[Row, ...]:
    return _parse(path.read_text())


@dataclass(frozen=True)
class Disk:
    """Writes files; on a full disk, a part of them."""

    scheduler: Scheduler

    def try_to_write(self, file_kind: str) -> None:
        if self.scheduler.is_full(file_kind):
            raise no_space()

    def put_rows(self, path: Path, rows: Rows) -> None:
        lines = [json.dumps(row) + "\n" for row in rows]
        if self.scheduler.is_full("a file of rows"):
            path.write_text("".join(lines[: len(lines) // 2]))
            raise no_space()
        path.write_text("".join(lines))


@dataclass
class SimulatedFrame:
    """Rows that Spark would compute; Spark writes them as several tasks."""

    spark: SimulatedSpark
    data: Rows

    @property
    def sparkSession(self) -> SimulatedSpark:  # noqa: N802
        return self.spark

    @property
    def columns(self) -> list[str]:
        return [field.name for field in FIELDS]

    @property
    def schema(self) -> SimpleNamespace:
        return SimpleNamespace(fields=FIELDS)

    @property
    def write(self) -> SimulatedFrame:
        return self

    def newest_by_key(self) -> SimulatedFrame:
        return SimulatedFrame(self.spark, list({row["id"]: row for row in self.data}.values()))

    def drop(self, *_names: str) -> SimulatedFrame:
        return self

    def select(self, *_columns: object) -> SimulatedFrame:
        return self

    def where(self, _condition: object) -> SimulatedFrame:
        return SimulatedFrame(self.spark, [])  # called only for an empty frame

    def option(self, *_option: str) -> SimulatedFrame:
        return self

    def writeTo(self, ref: str) -> Any:  # noqa: N802
        return self.spark.tables.write(self, ref)

    def parquet(self, address: str) -> None:
        """Write the rows in two tasks, then move the files in place, as Spark's committer does.

        A task whose output has vanished counts as a task without rows.
        """
        folder, step = Path(address.removeprefix("file://")), self.spark.scheduler.step
        half = (len(self.data) + 1) // 2
        for number, rows in enumerate((self.data[:half], self.data[half:])):
            step("before a task")
            task = folder / "_temporary" / str(number)
            task.mkdir(parents=True, exist_ok=True)
            self.spark.disk.put_rows(task / f"part-{number}-{uuid.uuid4().hex}.parquet", rows)
        step("before the job's commit")
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(2):
            task = folder / "_temporary" / str(number)
            for file in list(task.glob("*")):
                shutil.move(file, folder / file.name)
        shutil.rmtree(folder / "_temporary", ignore_errors=True)
        step("after the job's commit")


@dataclass
class SimulatedSpark:
    """A session and its settings; the model of a format executes statements and writes."""

    scheduler: Scheduler
    tables: Any
    settings: dict[str, str] = field(default_factory=dict)
    version = "4.1.0"

    @property
    def disk(self) -> Disk:
        return Disk(self.scheduler)

    @property
    def conf(self) -> SimpleNamespace:
        return SimpleNamespace(
            get=lambda key, default=None: self.settings.get(key, default),
            set=self.settings.__setitem__,
            unset=lambda key: self.settings.pop(key, None),
            getAll={},
        )

    def sql(self, statement: str) -> Any:
        return self.tables.execute(statement)

    def table(self, ref: str) -> SimulatedFrame:
        self.tables.check(ref)
        return SimulatedFrame(self, [])

    def range(self, _rows: int) -> SimulatedFrame:
        return SimulatedFrame(self, [])


@dataclass(frozen=True)
class SimulatedMerge:
    """The MERGE of an upsert into a table of the model."""

    target: str

    def run(self, batch: SimulatedFrame) -> None:
        batch.spark.tables.merge(self.target, batch)
