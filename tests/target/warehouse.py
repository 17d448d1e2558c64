"""Singer messages, and a folder of tables to load them into, for the tests of the target."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tap_core.protocols.singer.reader import SingerReader
from target_spark.config import settings
from target_spark.config.options import RunInfo
from target_spark.errors import (
    TargetSparkError,
)
from target_spark.loader.batch_commit import BatchWriter
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.storage.spool import SpoolFolder
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.table import Table
from target_spark.writers import get_writer
from tests.target.loader.table_counts import check_counts, count_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

FORMATS = ["delta", "iceberg", "parquet"]
ID = {"id": {"type": "integer"}}
ID_AND_NAME = {**ID, "name": {"type": ["null", "string"]}}


def schema(stream: str, properties: dict[str, Any], *keys: str) -> dict[str, Any]:
    json_schema = {"type": "object", "properties": properties}
    return {"type": "SCHEMA", "stream": stream, "schema": json_schema, "key_properties": list(keys)}


def record(stream: str, **values: Any) -> dict[str, Any]:
    return {"type": "RECORD", "stream": stream, "record": values}


def versioned(stream: str, version: int, **values: Any) -> dict[str, Any]:
    return {**record(stream, **values), "version": version}


def state(value: Any) -> dict[str, Any]:
    return {"type": "STATE", "value": {"at": value}}


def activate(stream: str, version: int) -> dict[str, Any]:
    return {"type": "ACTIVATE_VERSION", "stream": stream, "version": version}


class SharedEngine:
    """An engine with the tests' one Spark session, which outlives every load."""

    failure: TargetSparkError | None = None

    def __init__(self, session: Session) -> None:
        self._session = session
        self.started = False

    def begin(self) -> None:
        self.started = True

    def spark(self) -> SparkSession:
        return self._session.thread_session()

    spark_on_demand = lazy_spark = spark

    def raise_if_engine_lost(self, error: BaseException) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass
class Warehouse:
    """A folder of tables, the loads into it, and the results."""

    session: Session
    spark: SparkSession
    folder: Path
    format: str = "delta"
    small_batches: str = "spark"
    states: list[Any] = field(default_factory=list)
    report: Report = field(default_factory=Report)
    engine: SharedEngine = field(init=False)
    runs: int = 0

    def open(
        self, *, emit: Callable[[bytes], None] | None = None, **config: Any
    ) -> tuple[Loader, SpoolFolder]:
        """Return a loader for a new run."""
        self.runs += 1
        self.states, self.report = [], Report()
        self.engine = SharedEngine(self.session)
        defaults = {"path": str(self.folder), "format": self.format}
        config = {**defaults, "small_batches": self.small_batches, **config}
        assert settings.find_faults(config) == []
        options = settings.load_options(config)
        run = RunInfo("job", f"run{self.runs}", self.runs)
        spool = SpoolFolder(self.folder.parent / "spool")
        commits = partial(BatchWriter, self.engine, options, run, spool)
        emit = emit or (lambda text: self.states.append(json.loads(text)["at"]))
        return Loader(options, self.engine, spool, commits, self.report, emit), spool

    def load(self, *messages: dict[str, Any], whole: bool = True, **config: Any) -> list[Any]:
        """Load messages to the end; return the emitted states. The counts must agree."""
        before = count_rows(self.folder)
        loader, spool = self.open(**config)
        try:
            feed(loader, *messages)
            loader.poll()
            loader.finish(whole=whole)
        finally:
            loader.close()
            spool.close()
        if whole and not config.get("dry_run"):
            check_counts(self.report.as_dict(), before, self.folder)
        return self.states

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table in a stable order."""
        frame = self.read(table)
        if columns:
            frame = frame.select(*(f"`{column}`" for column in columns))
        return sorted((tuple(row) for row in frame.collect()), key=repr)

    def read(self, table: str) -> Any:
        reader = self.spark.read.format(self.format).option("mergeSchema", "true")
        return reader.load(to_spark_uri(f"{self.folder}/{table}"))

    def exists(self, table: str) -> bool:
        return (self.folder / table).exists()

    def marker(self, table: str) -> CommitMetadata | None:
        location = Table(f"{self.folder}/{table}", table)
        return get_writer(self.format).get_last_metadata(self.spark, location)

    def counts(self, stream: str) -> dict[str, Any]:
        counts: dict[str, Any] = self.report.as_dict()["streams"][stream]
        return counts


def make_warehouse(kind: str, session: Session, spark: SparkSession, folder: Path) -> Warehouse:
    """Return a warehouse of a format; ``delta-rs`` is Delta with small batches without Spark."""
    tables = folder / "tables"
    if kind == "delta-rs":
        return Warehouse(session, spark, tables, small_batches="delta-rs")
    return Warehouse(session, spark, tables, kind)


def feed(loader: Loader, *messages: dict[str, Any]) -> None:
    """Pass each message to a loader as one line."""
    decoder = SingerReader()
    for message in messages:
        for event in decoder.feed(json.dumps(message).encode() + b"\n"):
            loader.process_event(event)
