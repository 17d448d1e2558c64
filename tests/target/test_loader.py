"""The fold, on real tables: data before state, quarantine, schema changes, overwrites."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.exceptions import RecordsWithoutSchemaException
from tap_core.protocols.singer.decode import Decoder
from target_spark import settings
from target_spark.batches import BatchWriter
from target_spark.engine import SparkEngine
from target_spark.errors import (
    IncompleteError,
    OutletError,
    QuarantineError,
    TargetSparkError,
    UnsupportedError,
)
from target_spark.ledger import Marker
from target_spark.loader import Loader
from target_spark.options import Run
from target_spark.places import spark_address
from target_spark.report import Report
from target_spark.spool import SpoolFolder
from target_spark.work import Commits
from target_spark.writers import Table, writer_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.session import Session

pytestmark = pytest.mark.spark

FORMATS = ["delta", "parquet"]
ID = {"id": {"type": "integer"}}
ID_AND_NAME = {**ID, "name": {"type": ["null", "string"]}}


def schema(stream: str, properties: dict[str, Any], *keys: str) -> dict[str, Any]:
    described = {"type": "object", "properties": properties}
    return {"type": "SCHEMA", "stream": stream, "schema": described, "key_properties": list(keys)}


def record(stream: str, **values: Any) -> dict[str, Any]:
    return {"type": "RECORD", "stream": stream, "record": values}


def versioned(stream: str, version: int, **values: Any) -> dict[str, Any]:
    return {**record(stream, **values), "version": version}


def state(value: Any) -> dict[str, Any]:
    return {"type": "STATE", "value": {"at": value}}


def activate(stream: str, version: int) -> dict[str, Any]:
    return {"type": "ACTIVATE_VERSION", "stream": stream, "version": version}


class SharedEngine:
    """The tests' one Spark, which outlives every load."""

    failure: TargetSparkError | None = None

    def __init__(self, session: Session) -> None:
        self._session = session
        self.started = False

    def begin(self) -> None:
        self.started = True

    def spark(self) -> SparkSession:
        return self._session.thread_session()

    def close(self) -> None:
        pass


@dataclass
class Warehouse:
    """A folder of tables, loads into it, and what stands in it afterwards."""

    session: Session
    spark: SparkSession
    folder: Path
    format: str = "delta"
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
        config = {"path": str(self.folder), "format": self.format, **config}
        assert settings.faults(config) == []
        options = settings.load_options(config)
        run = Run("job", f"run{self.runs}", self.runs)
        spool = SpoolFolder(self.folder.parent / "spool")
        commits: Callable[[], Commits] = partial(BatchWriter, self.engine, options, run, spool)
        emit = emit or (lambda text: self.states.append(json.loads(text)["at"]))
        return Loader(options, self.engine, spool, commits, self.report, emit), spool

    def load(self, *messages: dict[str, Any], whole: bool = True, **config: Any) -> list[Any]:
        """Load messages to the end; return the states that left."""
        loader, spool = self.open(**config)
        try:
            feed(loader, *messages)
            loader.beat()
            loader.finish(whole=whole)
        finally:
            loader.close()
            spool.close()
        return self.states

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table, in some stable order."""
        found = self.read(table)
        if columns:
            found = found.select(*(f"`{column}`" for column in columns))
        return sorted((tuple(row) for row in found.collect()), key=repr)

    def read(self, table: str) -> Any:
        reader = self.spark.read.format(self.format).option("mergeSchema", "true")
        return reader.load(spark_address(f"{self.folder}/{table}"))

    def exists(self, table: str) -> bool:
        return (self.folder / table).exists()

    def marker(self, table: str) -> Marker | None:
        place = Table(f"{self.folder}/{table}", table)
        return writer_for(self.format).last_marker(self.spark, place)

    def counts(self, stream: str) -> dict[str, Any]:
        counts: dict[str, Any] = self.report.as_dict()["streams"][stream]
        return counts


def feed(loader: Loader, *messages: dict[str, Any]) -> None:
    """Fold messages, each as its own line."""
    decoder = Decoder()
    for message in messages:
        for event in decoder.feed(json.dumps(message).encode() + b"\n"):
            loader.fold(event)


@pytest.fixture
def delta(spark_session: Session, spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables")


@pytest.fixture(params=FORMATS)
def warehouse(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", request.param)


# Rows and states


def test_rows_land_and_the_last_state_leaves_after_them(warehouse: Warehouse) -> None:
    states = warehouse.load(
        schema("a", ID_AND_NAME),
        record("a", id=1, name="one"),
        state(1),
        record("a", id=2, name=None),
        state(2),
    )
    assert states == [2]
    assert warehouse.rows("a") == [(1, "one"), (2, None)]
    counts = warehouse.counts("a")
    assert (counts["received"], counts["written"], counts["quarantined"]) == (2, 2, 0)
    marker = warehouse.marker("a")
    assert marker is not None
    assert marker.state == '{"at": 2}'
    assert not list((warehouse.folder.parent / "spool").iterdir())


def test_each_commit_releases_the_state_that_it_covers(delta: Warehouse) -> None:
    rows_seen: list[tuple[Any, int]] = []

    def emit(text: bytes) -> None:
        rows_seen.append((json.loads(text)["at"], delta.read("a").count()))

    loader, spool = delta.open(flush_rows=2, emit=emit)
    feed(loader, schema("a", ID))
    for number in range(1, 7):
        feed(loader, record("a", id=number), state(number))
        while number % 2 == 0 and len(rows_seen) < number // 2:
            loader.beat()
            time.sleep(0.05)
    loader.finish(whole=True)
    loader.close()
    spool.close()
    # The state right behind a batch is released with it, and each state's rows are there.
    assert rows_seen == [(2, 2), (4, 4), (6, 6)]


def test_a_keyed_stream_is_upserted_across_runs_and_within_one(delta: Warehouse) -> None:
    described = schema("a", ID_AND_NAME, "id")
    delta.load(described, record("a", id=1, name="old"), record("a", id=2, name="two"))
    delta.load(
        described,
        record("a", id=1, name="newer"),
        record("a", id=3, name="three"),
        record("a", id=1, name="newest"),
        flush_rows=1,
    )
    assert delta.rows("a") == [(1, "newest"), (2, "two"), (3, "three")]


def test_parquet_appends_keyed_streams_and_says_so(
    spark_session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    parquet = Warehouse(spark_session, spark, tmp_path / "tables", "parquet")
    described = schema("a", ID, "id")
    for _ in range(2):
        parquet.load(described, record("a", id=1))
    assert parquet.rows("a") == [(1,), (1,)]
    assert any("cannot upsert" in note for note in parquet.counts("a")["notes"])
