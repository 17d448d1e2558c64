"""A model of Delta tables: real folders and logs, no JVM.

The log follows the protocol: the first writer that creates a version's file makes the version. The
functions of deltalake that the writer uses are modelled by their documented behaviour, and MERGE by
Delta's: any commit since the statement began is a conflict.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import types as T  # noqa: N812

from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.table import Table
from target_spark.writers.delta import catalog, data_files
from target_spark.writers.delta import writer as delta
from target_spark.writers.delta.data_files import DataFile
from tests.simulation.scheduler import Scheduler
from tests.simulation.spark import (
    FIELDS,
    Disk,
    Row,
    Rows,
    SimulatedFrame,
    SimulatedMerge,
    names_in,
    read_rows,
)

__all__ = ["DeltaTables", "SimulatedSnapshot"]

_PROPERTIES = {"target_spark.source.kept": "true"}
_SETTINGS = "spark.databricks.delta."


class ConcurrentAppendException(Exception):  # noqa: N818  (Delta's name)
    """Another writer added rows that this transaction should have read."""

    __module__ = "io.delta.exceptions"


class NoTableError(AnalysisException):
    """The error of Delta for an address without a table."""

    def getCondition(self) -> str:  # noqa: N802
        return "DELTA_PATH_DOES_NOT_EXIST"


@dataclass
class SimulatedSnapshot:
    """The model of `delta_transaction.Snapshot`."""

    folder: Path
    id: str
    version: int
    properties: Mapping[str, str]
    files: tuple[str, ...] = ()
    transactions: Mapping[str, int] = field(default_factory=dict)
    fields: Sequence[T.StructField] = tuple(FIELDS)
    partition_columns: tuple[str, ...] = ()
    takes_files: bool = True

    def has_files(self) -> bool:
        return bool(self.files)

    def has_batch(self, app_id: str, batch: int) -> bool:
        return self.transactions.get(app_id) == batch


def _info(marker: str | None, metrics: Mapping[str, int]) -> dict[str, Any]:
    operation_metrics = {name: str(count) for name, count in metrics.items()}
    return {"commitInfo": {"userMetadata": marker, "operationMetrics": operation_metrics}}


def _add(path: Path, rows: int) -> dict[str, Any]:
    stats = json.dumps({"numRecords": rows})
    return {"add": {"path": path.name, "size": path.stat().st_size, "stats": stats}}


def _transaction(app_id: str, version: int) -> dict[str, Any]:
    return {"txn": {"appId": app_id, "version": version}}


class DeltaTables:
    """The Delta tables in a folder, with the operations of deltalake and Spark."""

    def __init__(self, root: Path, scheduler: Scheduler) -> None:
        self._root = root
        self._scheduler = scheduler
        self._disk = Disk(scheduler)
        self._versions: dict[str, list[SimulatedSnapshot]] = {}
        self._rows: dict[tuple[str, int], Rows] = {}
        self._merges = self._commits = 0

    def replacements(self) -> dict[Any, dict[str, Any]]:
        return {
            delta: {
                "create_catalog_table": lambda _spark, table, *_, **__: self._create(table),
                "commit_files": self._commit_files,
                "counted": lambda df, _rows: (df, lambda _found: len(df.data)),
                "latest_by_key": lambda df, _keys: df.newest_by_key(),
                "as_initial_rows": lambda df, _keys: df,
                "build_upsert": lambda ref, *_: SimulatedMerge(ref),
            },
            catalog: {"read_snapshot": self._read},
            data_files: {
                "row_count": lambda path: len(read_rows(path)),
                "delta_statistics": lambda _path: "",
                "flush_table": lambda *_: None,
            },
        }

    # Called by the schedule

    def exists(self, name: str) -> bool:
        return bool(self._versions.get(name))

    def rows(self, name: str) -> Rows:
        versions = self._versions.get(name)
        if not versions:
            return []
        newest = versions[-1]
        if missing := set(newest.files) - set(names_in(self._root / name)):
            raise FileNotFoundError(f"the table names {missing}, which are not there")
        key = (newest.id, newest.version)
        if key not in self._rows:
            self._rows[key] = self._live(newest)
        return self._rows[key]

    def append(self, name: str, row: Row) -> bool:
        path = self._root / name / f"theirs-{uuid.uuid4().hex}.parquet"
        path.write_text(json.dumps(row) + "\n")
        actions = [_info(None, {"numOutputRows": 1}), _add(path, 1)]
        return self._publish(name, self._versions[name][-1].version + 1, actions)

    def may_act(self, name: str, _action: str) -> bool:
        """Return True if the table can be removed: no commit to it is in progress.

        The version of such a commit could be the next one of a new table, too.
        """
        return self.exists(name) and not self._merges and not self._commits

    def remove(self, name: str) -> None:
        shutil.rmtree(self._root / name)
        del self._versions[name]

    def replace(self, name: str, row: Row) -> None:
        self.remove(name)
        (self._root / name / "_delta_log").mkdir(parents=True)
        self._publish(name, 0, [{"metaData": {"id": "another", "configuration": {}}}])
        self.append(name, row)

    def is_as_replaced(self, name: str) -> bool:
        return len(self._versions.get(name, ())) == 2

    def list_leftovers(self, name: str, jobs: Sequence[str]) -> list[str]:
        prefixes = tuple(map(data_files._staging_prefix, jobs))
        return [
            file_name for file_name in names_in(self._root / name) if file_name.startswith(prefixes)
        ]

    # Operations of deltalake

    def _read(self, folder: Path) -> SimulatedSnapshot | None:
        self._scheduler.step("read the table")
        versions = self._versions.get(folder.name)
        return versions[-1] if versions else None

    def _create(self, table: Table) -> None:
        folder = Path(table.path)
        metadata = {"metaData": {"id": uuid.uuid4().hex, "configuration": _PROPERTIES}}

        def effect() -> None:
            (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
            self._publish(folder.name, 0, [_info(None, {}), metadata])

        (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
        self._disk.try_to_write("a commit")
        self._scheduler.call("create the table", effect)

    def _commit_files(
        self,
        snapshot: SimulatedSnapshot,
        files: Sequence[DataFile],
        marker: CommitMetadata,
        app_id: str,
        *,
        replaces: bool = False,
    ) -> bool:
        assert not replaces, "rows are replaced only where no Spark is started"
        metrics = {"numOutputRows": sum(file.rows for file in files), "numFiles": len(files)}
        actions = [
            _info(marker.to_json(), metrics),
            *(_add(file.path, file.rows) for file in files if file.path.exists()),
            _transaction(app_id, marker.batch),
        ]

        def effect() -> bool:
            name = snapshot.folder.name
            if len(self._versions.get(name, ())) <= snapshot.version:
                raise ValueError(f"Invalid table version: {snapshot.version}")
            return self._publish(name, snapshot.version + 1, actions)

        self._commits += 1
        try:
            self._disk.try_to_write("a commit")
            return self._scheduler.call("commit files", effect)
        finally:
            self._commits -= 1

    # Operations of Spark

    def check(self, statement: str) -> None:
        """Raise NoTableError if the table of a statement or a reference does not exist."""
        match = re.search(r"delta\.`file://([^`]+)`", statement)
        if match is None or not self.exists(Path(match[1]).name):
            raise NoTableError("[DELTA_PATH_DOES_NOT_EXIST]")

    def execute(self, statement: str) -> None:
        self.check(statement)
        raise AssertionError(statement)

    def merge(self, ref: str, batch: SimulatedFrame) -> None:
        """Merge a batch into a table and commit it.

        Raises:
            ConcurrentAppendException: Another writer has added rows since the MERGE began.
        """
        self.check(ref)
        self._merges += 1
        try:
            self._merge(Path(ref.removeprefix("delta.`file://").removesuffix("`")), batch)
        finally:
            self._merges -= 1

    def _merge(self, folder: Path, batch: SimulatedFrame) -> None:
        read = self._versions[folder.name][-1]
        existing = {row["id"]: row for row in self._live(read)}
        merged = {**existing, **{row["id"]: row for row in batch.data}}
        self._scheduler.step("while a MERGE runs")
        file = folder / f"part-{uuid.uuid4().hex}.parquet"
        self._disk.put_rows(file, list(merged.values()))
        updated = sum(row["id"] in existing for row in batch.data)
        metrics = {
            "numSourceRows": len(batch.data),
            "numTargetRowsInserted": len(batch.data) - updated,
            "numTargetRowsUpdated": updated,
            "numTargetFilesAdded": 1,
        }
        settings = {
            key.removeprefix(_SETTINGS): value for key, value in batch.spark.settings.items()
        }
        actions = [
            _info(settings.get("commitInfo.userMetadata"), metrics),
            *({"remove": {"path": name}} for name in read.files),
            _add(file, len(merged)),
            _transaction(settings["write.txnAppId"], int(settings["write.txnVersion"])),
        ]

        def effect() -> None:
            now = self._versions.get(folder.name, [])
            if len(now) <= read.version or not self._publish(
                folder.name, read.version + 1, actions
            ):
                raise ConcurrentAppendException("DELTA_CONCURRENT_APPEND")

        self._disk.try_to_write("a commit")
        self._scheduler.call("commit a MERGE", effect)

    # The log

    def _live(self, snapshot: SimulatedSnapshot) -> list[Row]:
        return [row for file in snapshot.files for row in read_rows(snapshot.folder / file)]

    def _publish(self, name: str, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Create a version atomically; return False if it exists."""
        versions = self._versions.get(name, [])
        if version != len(versions):
            return False
        folder = self._root / name
        lines = (json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
        (folder / "_delta_log" / f"{version:020}.json").write_text("".join(lines))
        before = versions[-1] if versions else SimulatedSnapshot(folder, "", -1, {})
        self._versions[name] = [*versions, _after(before, actions)]
        return True


def _after(before: SimulatedSnapshot, actions: Sequence[Mapping[str, Any]]) -> SimulatedSnapshot:
    files, transactions = dict.fromkeys(before.files), dict(before.transactions)
    after = replace(before, version=before.version + 1)
    for action in actions:
        if "metaData" in action:
            after.id = action["metaData"]["id"]
            after.properties = action["metaData"]["configuration"]
        if "txn" in action:
            transactions[action["txn"]["appId"]] = action["txn"]["version"]
        if "add" in action:
            files[action["add"]["path"]] = None
        if "remove" in action:
            del files[action["remove"]["path"]]
    after.files, after.transactions = tuple(files), transactions
    return after
