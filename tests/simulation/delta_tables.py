"""A model of Delta tables and of Spark for simulations: real files and logs, no JVM.

The log is the protocol's: a version is made by the first who creates its file. Files of rows hold
JSON lines instead of Parquet. `SimulatedSpark` makes the commits of the writer's MERGEs.
The functions of deltalake that the writer uses are modelled by their documented behaviour:
`tests/simulation/test_model.py` compares them with the real ones.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import types as T  # noqa: N812

from target_spark.ledger import Marker
from target_spark.writers.delta_files import DataFile
from tests.simulation.scheduler import Scheduler

__all__ = [
    "Rows",
    "SimulatedDelta",
    "SimulatedFrame",
    "SimulatedMerge",
    "SimulatedSpark",
    "live_rows",
]

Rows = list[dict[str, Any]]

_FIELDS = (T.StructField("id", T.LongType()), T.StructField("v", T.LongType()))


def log_file(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020}.json"


def newest_version(folder: Path) -> int | None:
    found = [int(path.stem) for path in (folder / "_delta_log").glob("*.json")]
    return max(found, default=None)


def actions_of(folder: Path) -> Iterator[dict[str, Any]]:
    for version in range((newest_version(folder) or 0) + 1):
        for line in log_file(folder, version).read_text().splitlines():
            yield json.loads(line)


def live_files(folder: Path) -> list[str]:
    """Return the files that belong to the newest version of a table."""
    if newest_version(folder) is None:
        return []
    found: dict[str, None] = {}
    for action in actions_of(folder):
        if "add" in action:
            found[action["add"]["path"]] = None
        if "remove" in action:
            del found[action["remove"]["path"]]
    return list(found)


def read_rows(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text().splitlines()]


def live_rows(folder: Path) -> Rows:
    """Return the rows of a table; an error where a file is gone, as for any reader."""
    return [row for name in live_files(folder) for row in read_rows(folder / name)]


def write_rows(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def commit(folder: Path, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Make a version, whole and once; False where there is one already."""
    fresh = folder / "_delta_log" / f".{uuid.uuid4().hex}.tmp"
    fresh.write_text(
        "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    )
    try:
        os.link(fresh, log_file(folder, version))
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    return True


def info(marker: str | None, metrics: Mapping[str, int]) -> dict[str, Any]:
    told = {name: str(count) for name, count in metrics.items()}
    return {"commitInfo": {"userMetadata": marker, "operationMetrics": told}}


def add(path: Path, rows: int) -> dict[str, Any]:
    stats = json.dumps({"numRecords": rows})
    return {"add": {"path": path.name, "size": path.stat().st_size, "stats": stats}}


@dataclass
class SimulatedSnapshot:
    """What `delta_transaction.Snapshot` is."""

    folder: Path
    id: str
    version: int
    properties: Mapping[str, str]
    files: list[str]
    transactions: dict[str, int]
    fields: tuple[T.StructField, ...] = _FIELDS
    takes_files: bool = True

    def has_files(self) -> bool:
        return bool(self.files)

    def has_batch(self, app_id: str, batch: int) -> bool:
        return self.transactions.get(app_id) == batch


class SimulatedDelta:
    """What the writer calls of deltalake, with steps of the schedule in it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def read_snapshot(self, folder: Path) -> SimulatedSnapshot | None:
        self._scheduler.step("read the table")
        if newest_version(folder) is None:
            return None
        found = SimulatedSnapshot(folder, "", newest_version(folder) or 0, {}, [], {})
        for action in actions_of(folder):
            if "metaData" in action:
                found.id = action["metaData"]["id"]
                found.properties = action["metaData"]["configuration"]
            if "txn" in action:
                found.transactions[action["txn"]["appId"]] = action["txn"]["version"]
        found.files = live_files(folder)
        return found

    def create_table(self, folder: Path, properties: Mapping[str, str]) -> None:
        made = {"id": uuid.uuid4().hex, "configuration": dict(properties)}

        def effect() -> None:
            (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
            commit(folder, 0, [info(None, {}), {"metaData": made}])

        self._scheduler.call("create the table", effect)

    def commit_files(
        self, snapshot: SimulatedSnapshot, files: Sequence[DataFile], marker: Marker, app_id: str
    ) -> bool:
        metrics = {"numOutputRows": sum(file.rows for file in files), "numFiles": len(files)}
        actions = [
            info(marker.to_json(), metrics),
            *(add(file.path, file.rows) for file in files if file.path.exists()),
            {"txn": {"appId": app_id, "version": marker.batch}},
        ]

        def effect() -> bool:
            if not log_file(snapshot.folder, snapshot.version).exists():
                raise ValueError(f"Invalid table version: {snapshot.version}")
            return commit(snapshot.folder, snapshot.version + 1, actions)

        return self._scheduler.call("commit files", effect)


class ConcurrentAppendException(Exception):  # noqa: N818  (Delta's name)
    """Another writer added rows that this transaction should have read."""

    __module__ = "io.delta.exceptions"


@dataclass
class SimulatedFrame:
    """Rows that Spark would compute; Spark writes them as several tasks."""

    spark: SimulatedSpark
    data: Rows
    keys: tuple[str, ...] = ()

    @property
    def sparkSession(self) -> SimulatedSpark:  # noqa: N802
        return self.spark

    @property
    def columns(self) -> list[str]:
        return ["id", "v"]

    @property
    def schema(self) -> SimpleNamespace:
        return SimpleNamespace(fields=[])

    @property
    def write(self) -> SimulatedFrame:
        return self

    def drop(self, *_names: str) -> SimulatedFrame:
        return self

    def option(self, *_option: str) -> SimulatedFrame:
        return self

    def parquet(self, address: str) -> None:
        """Write the rows in two tasks, and then let them be seen, as Spark's committer does.

        A task whose output has vanished counts as one without rows.
        """
        folder, step = Path(address.removeprefix("file://")), self.spark.scheduler.step
        half = (len(self.data) + 1) // 2
        for number, rows in enumerate((self.data[:half], self.data[half:])):
            step("before a task")
            task = folder / "_temporary" / str(number)
            task.mkdir(parents=True, exist_ok=True)
            write_rows(task / f"part-{number}-{uuid.uuid4().hex}.parquet", rows)
        step("before the job's commit")
        for path in sorted(folder.glob("_temporary/*/*.parquet")):
            path.rename(folder / path.name)
        shutil.rmtree(folder / "_temporary", ignore_errors=True)
        folder.mkdir(exist_ok=True)
        step("after the job's commit")


@dataclass
class SimulatedSpark:
    """A session: its settings, and MERGE on tables of the model."""

    scheduler: Scheduler
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def conf(self) -> SimpleNamespace:
        return SimpleNamespace(
            get=lambda key, default=None: self.settings.get(key, default),
            set=self.settings.__setitem__,
            unset=lambda key: self.settings.pop(key, None),
            getAll={},
        )

    def merge(self, folder: Path, batch: SimulatedFrame) -> None:
        """Make the commit of a MERGE.

        Raises:
            ConcurrentAppendException: another writer added rows since it began.
        """
        self.scheduler.merges += 1
        try:
            self._merge(folder, batch)
        finally:
            self.scheduler.merges -= 1

    def _merge(self, folder: Path, batch: SimulatedFrame) -> None:
        read = newest_version(folder)
        if read is None:
            raise ValueError("DELTA_TABLE_NOT_FOUND")
        old = live_files(folder)
        there = {row["id"]: row for row in live_rows(folder)}
        merged = {**there, **{row["id"]: row for row in batch.data}}
        self.scheduler.step("while a MERGE runs")
        file = folder / f"part-{uuid.uuid4().hex}.parquet"
        folder.mkdir(exist_ok=True)
        write_rows(file, list(merged.values()))
        updated = sum(row["id"] in there for row in batch.data)
        metrics = {
            "numSourceRows": len(batch.data),
            "numTargetRowsInserted": len(batch.data) - updated,
            "numTargetRowsUpdated": updated,
            "numTargetFilesAdded": 1,
        }
        settings = dict(self.settings)
        actions = [
            info(settings.get("spark.databricks.delta.commitInfo.userMetadata"), metrics),
            *({"remove": {"path": name}} for name in old),
            add(file, len(merged)),
            {
                "txn": {
                    "appId": settings["spark.databricks.delta.write.txnAppId"],
                    "version": int(settings["spark.databricks.delta.write.txnVersion"]),
                }
            },
        ]

        def effect() -> None:
            if not log_file(folder, read).exists() or not commit(folder, read + 1, actions):
                raise ConcurrentAppendException("DELTA_CONCURRENT_APPEND")

        self.scheduler.call("commit a MERGE", effect)


@dataclass(frozen=True)
class SimulatedMerge:
    """The MERGE of an upsert into a table of the model."""

    target: str

    def run(self, batch: SimulatedFrame) -> None:
        folder = self.target.removeprefix("delta.`file://").removesuffix("`")
        batch.spark.merge(Path(folder), batch)
